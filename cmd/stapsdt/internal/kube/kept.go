//go:build unix

package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/ending"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

const (
	// fromFlag is the flag for the path of a recording in the pod.
	fromFlag = "from"
	// waitFlag is the flag that waits for the next life of a container.
	waitFlag = "wait"
	// keptFlag is the flag of record for a recording of an earlier life of the container.
	keptFlag = "kept"
)

// variable is a variable in the environment of a container. Value is empty if it comes from an
// object such as a Secret.
type variable struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// volumeMount is a volume of a container.
type volumeMount struct {
	Name        string `json:"name"`
	MountPath   string `json:"mountPath"`
	SubPath     string `json:"subPath,omitempty"`
	SubPathExpr string `json:"subPathExpr,omitempty"`
	ReadOnly    bool   `json:"readOnly,omitempty"`
}

func (r *Request) isKept() bool { return r.values[keptFlag] == "true" }

func (r *Request) waits() bool { return r.values[waitFlag] == "true" }

// readsRecording reports whether the request is about a recording in the pod.
func (r *Request) readsRecording() bool {
	return r.isKept() || r.values[fromFlag] != "" || r.verb == postmortemVerb
}

// postmortemVerb is the verb that reads the newest recording unless another one is given.
const postmortemVerb = "postmortem"

// ended returns what Kubernetes tells about the container, for postmortem.
func (s *subject) ended() string {
	c := ending.Container{
		Pod: s.Metadata.Namespace + "/" + s.Metadata.Name + "/" + s.container.Name,
	}
	if t := cmp.Or(s.status.State.Terminated, s.status.LastState.Terminated); t != nil {
		c.Reason, c.ExitCode, c.Signal, c.Message = t.Reason, t.ExitCode, t.Signal, t.Message
		c.StartedAt, c.FinishedAt = t.StartedAt, t.FinishedAt
	}
	b, err := json.Marshal(&c)
	if err != nil {
		panic(err) // impossible: all of it are texts and numbers
	}
	return string(b)
}

// recorded returns the flags with which the request selects a recording.
func (r *Request) recorded() (flags []string) {
	if from := r.values[fromFlag]; from != "" {
		flags = append(flags, "--from="+from)
	}
	switch {
	case r.verb == "record" && r.readsRecording():
		flags = append(flags, "--kept")
	case r.verb == postmortemVerb:
		flags = append(flags, "--newest")
	}
	return flags
}

// notRunning means that a container does not run.
type notRunning struct{ *subject }

func (e *notRunning) Error() string {
	text := fmt.Sprintf("the container %s of the pod %v is not running: %s", e.container.Name, e.pod, e.status.State.text())
	if e.isBetween() {
		text += fmt.Sprintf("; list -p %[1]v shows what its earlier lives have recorded, record --kept -p %[1]v -O FILE fetches it, postmortem -p %[1]v shows what the last one was doing, and --wait waits for the next life", e.pod)
	}
	return text
}

// isBetween reports whether the container had a life before, and may have another.
func (s *subject) isBetween() bool {
	ended := s.status.State.Terminated
	return !s.isFinished() && (s.status.RestartCount > 0 || ended != nil && ended.ExitCode != 0)
}

// isFinished reports whether no container of the pod runs again.
func (p *pod) isFinished() bool { return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" }

// stopped returns the subject for a container that does not run, whose recordings are to be read in
// its volumes. problem is the error of finding it.
func (a *execution) stopped(ctx context.Context, problem error) (*subject, error) {
	var e *notRunning
	if !errors.As(problem, &e) {
		return nil, problem
	}
	s := e.subject
	if a.request.verb != "list" && !a.request.readsRecording() {
		if !a.request.waits() || s.isFinished() {
			return nil, problem
		}
		a.warn("waiting for the next life of the container %s of the pod %v", s.container.Name, s.pod)
		return a.kubectl.awaitLife(ctx, s)
	}
	if s.isFinished() {
		return nil, fmt.Errorf("the pod %v has ended (%s): no container can be added to it to read its volumes, so that only root on the node %s can read them, until the pod is deleted", s.pod, s.Status.Phase, s.Spec.NodeName)
	}
	if s.mounts = s.container.mounts(); s.mounts == nil {
		return nil, fmt.Errorf("%w; and it has no volume that another container can mount, which takes one without a subPath", problem)
	}
	s.recorded = []string{"--mounted"}
	if path := s.container.recordPath(); path != "" {
		s.recorded = append(s.recorded, "--record="+path)
	} else if !strings.Contains(a.request.values[fromFlag], "/") {
		return nil, fmt.Errorf("the container %s of the pod %v is not running, and its specification does not set %s to a path: give --from PATH", s.container.Name, s.pod, recording.Variable)
	}
	return s, nil
}

// recordPath returns the value of STAPSDT_RECORD that the specification sets, or "" if it sets none
// or refers to something else.
func (c *container) recordPath() string {
	i := slices.IndexFunc(c.Env, func(v variable) bool { return v.Name == recording.Variable })
	if i < 0 || strings.Contains(c.Env[i].Value, "$(") {
		return ""
	}
	if _, _, err := recording.ParseVariable(c.Env[i].Value); err != nil {
		return ""
	}
	return c.Env[i].Value
}

// mounts returns the volumes of a container for an ephemeral container, which may not have parts of
// volumes, or nil if there is none.
func (c *container) mounts() (all []volumeMount) {
	for _, m := range c.VolumeMounts {
		isToken := strings.HasPrefix(m.MountPath, "/var/run/secrets/kubernetes.io/")
		if m.SubPath == "" && m.SubPathExpr == "" && !isToken {
			m.ReadOnly = true
			all = append(all, m)
		}
	}
	return all
}

// isServedBy reports whether a waiting container was added for a container: it has its PID
// namespace, or, if the container does not run, its volumes.
func (s *subject) isServedBy(c *ephemeralContainer) bool {
	if s.mounts == nil {
		return c.TargetContainerName == s.container.Name
	}
	lacks := func(m volumeMount) bool {
		return !slices.ContainsFunc(c.VolumeMounts, func(its volumeMount) bool {
			return its.Name == m.Name && its.MountPath == m.MountPath
		})
	}
	return c.TargetContainerName == "" && !slices.ContainsFunc(s.mounts, lacks)
}

// targetFlag returns the flag of kubectl debug for the PID namespace of the container.
func (s *subject) targetFlag() []string {
	if s.mounts != nil {
		return nil
	}
	return []string{"--target=" + s.container.Name}
}

// lifeInterval is the interval between two looks at a container whose next life is awaited.
const lifeInterval = 200 * time.Millisecond

// awaitLife returns a container as soon as it runs.
func (k *kubectl) awaitLife(ctx context.Context, s *subject) (*subject, error) {
	for {
		p, err := k.pod(ctx, s.Metadata.Namespace, s.Metadata.Name)
		if err != nil {
			return nil, err
		}
		next, err := p.choose(s.container.Name)
		var e *notRunning
		if err == nil || !errors.As(err, &e) || p.isFinished() {
			return next, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lifeInterval):
		}
	}
}
