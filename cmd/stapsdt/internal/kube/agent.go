//go:build unix

package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// agentLabel is the label of the node agent's pods in packaging/.
const agentLabel = "app.kubernetes.io/name=stapsdt"

// agents returns the pods of the node agent, on a node or on all nodes.
func (k *kubectl) agents(ctx context.Context, namespace, node string) ([]pod, error) {
	var list struct {
		Items []pod `json:"items"`
	}
	args := []string{"pods", "--namespace=" + namespace, "--selector=" + agentLabel}
	if node != "" {
		args = append(args, "--field-selector=spec.nodeName="+node)
	}
	err := k.get(ctx, &list, args...)
	if errors.Is(err, errForbidden) {
		return nil, forbidden("you may not list the pods of the node agent in the namespace %s: %v", namespace, err)
	}
	return list.Items, err
}

func (p *pod) agentContainer() *container {
	if len(p.Spec.Containers) == 0 {
		return nil
	}
	i := slices.IndexFunc(p.Spec.Containers, func(c container) bool { return c.Name == "stapsdt" })
	return &p.Spec.Containers[max(i, 0)]
}

func (k *kubectl) agent(ctx context.Context, namespace, node string) (*place, error) {
	all, err := k.agents(ctx, namespace, node)
	if err != nil {
		return nil, err
	}
	for i := range all {
		c := all[i].agentContainer()
		if c == nil || all[i].Status.Phase != "Running" {
			continue
		}
		p := newPlace(&all[i], c.Name, c.Resources.memory())
		p.agent = true
		return p, nil
	}
	return nil, fmt.Errorf("no node agent runs on the node %s (no pod of the namespace %s has the label %s there)", node, namespace, agentLabel)
}

func (k *kubectl) agentImage(ctx context.Context, namespace string) (string, error) {
	all, err := k.agents(ctx, namespace, "")
	if err != nil {
		return "", err
	}
	for i := range all {
		if c := all[i].agentContainer(); c != nil {
			return c.Image, nil
		}
	}
	return "", fmt.Errorf("there is no node agent in the namespace %s", namespace)
}
