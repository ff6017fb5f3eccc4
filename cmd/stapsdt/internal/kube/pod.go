//go:build unix

package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// pod holds the fields of a pod that this package reads.
type pod struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		NodeName              string               `json:"nodeName"`
		ShareProcessNamespace bool                 `json:"shareProcessNamespace"`
		HostPID               bool                 `json:"hostPID"`
		SecurityContext       owner                `json:"securityContext"`
		Resources             resources            `json:"resources"`
		Containers            []container          `json:"containers"`
		InitContainers        []container          `json:"initContainers"`
		EphemeralContainers   []ephemeralContainer `json:"ephemeralContainers"`
	} `json:"spec"`
	Status struct {
		Phase                      string            `json:"phase"`
		ContainerStatuses          []containerStatus `json:"containerStatuses"`
		InitContainerStatuses      []containerStatus `json:"initContainerStatuses"`
		EphemeralContainerStatuses []containerStatus `json:"ephemeralContainerStatuses"`
	} `json:"status"`
}

// owner is the user and the group of a security context. Each is nil if it is unknown.
type owner struct {
	User  *int64 `json:"runAsUser,omitempty"`
	Group *int64 `json:"runAsGroup,omitempty"`
}

func (o owner) known() bool { return o.User != nil && o.Group != nil }

// or returns o, with unknown fields taken from other.
func (o owner) or(other owner) owner {
	return owner{cmp.Or(o.User, other.User), cmp.Or(o.Group, other.Group)}
}

type container struct {
	Name            string        `json:"name"`
	Image           string        `json:"image"`
	SecurityContext owner         `json:"securityContext"`
	Env             []variable    `json:"env,omitempty"`
	VolumeMounts    []volumeMount `json:"volumeMounts,omitempty"`
	Resources       resources     `json:"resources"`
}

// resources are those of a container or, since Kubernetes 1.34, of a pod.
type resources struct {
	Limits map[string]string `json:"limits"`
}

// memory returns the memory limit, or 0 if there is none.
func (r *resources) memory() int64 { return quantity(r.Limits["memory"]) }

type ephemeralContainer struct {
	container
	TargetContainerName string `json:"targetContainerName"`
}

type containerStatus struct {
	Name         string         `json:"name"`
	ContainerID  string         `json:"containerID"`
	RestartCount int            `json:"restartCount"`
	State        containerState `json:"state"`
	LastState    containerState `json:"lastState"`
	User         *struct {
		Linux *struct {
			UID int64 `json:"uid"`
			GID int64 `json:"gid"`
		} `json:"linux"`
	} `json:"user"`
}

type containerState struct {
	Running *struct{} `json:"running"`
	Waiting *struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	} `json:"waiting"`
	Terminated *lifeEnd `json:"terminated"`
}

// lifeEnd is the end of a life of a container.
type lifeEnd struct {
	Reason     string `json:"reason"`
	Message    string `json:"message"`
	ExitCode   int    `json:"exitCode"`
	Signal     int    `json:"signal"`
	StartedAt  string `json:"startedAt"`
	FinishedAt string `json:"finishedAt"`
}

func (p *pod) String() string { return p.Metadata.Namespace + "/" + p.Metadata.Name }

// subject is the container that a request selects.
type subject struct {
	*pod
	container container
	status    containerStatus
	note      string // a message that names the container that was chosen, if the user named none
	// recorded are the flags that select recordings, and mounts the volumes to mount if the
	// container does not run, or nil.
	recorded []string
	mounts   []volumeMount
}

// id returns the ID of the container in the runtime.
func (s *subject) id() string {
	_, id, _ := strings.Cut(s.status.ContainerID, "://")
	return id
}

// alone reports whether the container has a PID namespace of its own.
func (s *subject) alone() bool { return !s.Spec.ShareProcessNamespace && !s.Spec.HostPID }

// find finds the container of a selection that names one pod. A/B is the container B of a pod A if
// there is one in the current namespace, and otherwise the pod B of the namespace A.
func (k *kubectl) find(ctx context.Context, s *selection) (*subject, error) {
	parts := strings.Split(s.pod, "/")
	switch {
	case len(parts) == 3:
		return k.findIn(ctx, parts[0], parts[1], parts[2])
	case len(parts) == 1:
		return k.findIn(ctx, s.namespace, parts[0], s.container)
	case s.container != "":
		return k.findIn(ctx, parts[0], parts[1], s.container)
	case s.namespace != "":
		return k.findIn(ctx, s.namespace, parts[0], parts[1])
	}
	return k.findEither(ctx, parts)
}

// findEither finds a container for A/B.
func (k *kubectl) findEither(ctx context.Context, parts []string) (*subject, error) {
	s, err := k.findIn(ctx, "", parts[0], parts[1])
	if err == nil || !errors.Is(err, errNotFound) && !errors.Is(err, errForbidden) {
		return s, err
	}
	other, otherErr := k.findIn(ctx, parts[0], parts[1], "")
	if otherErr != nil && errors.Is(err, errNotFound) && !errors.Is(otherErr, errForbidden) {
		return nil, fmt.Errorf("no pod %s in namespace %s, and no container %s in pod %s of the current namespace: %w", parts[1], parts[0], parts[1], parts[0], errNotFound)
	}
	return other, otherErr
}

func (k *kubectl) findIn(ctx context.Context, namespace, name, container string) (*subject, error) {
	p, err := k.pod(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return p.choose(container)
}

// pod reads a pod. The namespace "" is the current one. The pod is not complete after an error.
func (k *kubectl) pod(ctx context.Context, namespace, name string) (*pod, error) {
	args := []string{"pod", name}
	if namespace != "" {
		args = append(args, "--namespace="+namespace)
	}
	p := &pod{}
	return p, k.get(ctx, p, args...)
}

// life returns the pod of a container as it is now, or nil if the container no longer runs.
func (k *kubectl) life(ctx context.Context, s *subject) (*pod, error) {
	now, err := k.pod(ctx, s.Metadata.Namespace, s.Metadata.Name)
	same, chooseErr := now.choose(s.container.Name)
	switch {
	case err != nil && !errors.Is(err, errNotFound):
		return nil, err
	case chooseErr != nil || same.id() != s.id() || now.Metadata.Deletion != "":
		return nil, nil
	}
	return now, nil
}

// choose returns the container with a name or, if name is "", the container that kubectl would
// choose.
func (p *pod) choose(name string) (*subject, error) {
	s := &subject{pod: p}
	containers := slices.Concat(p.Spec.Containers, p.Spec.InitContainers)
	if name == "" {
		name = p.Metadata.Annotations["kubectl.kubernetes.io/default-container"]
	}
	i := slices.IndexFunc(containers, func(c container) bool { return c.Name == name })
	switch {
	case i < 0 && name != "":
		return nil, fmt.Errorf("the pod %v has no container %s, but %s: %w", p, name, names(containers), errNotFound)
	case len(containers) == 0:
		return nil, fmt.Errorf("the pod %v has no container: %w", p, errNotFound)
	case i < 0:
		i = 0
		if len(p.Spec.Containers) > 1 {
			s.note = fmt.Sprintf("selected the container %s of %s: use -c NAME to select another", containers[0].Name, names(p.Spec.Containers))
		}
	}
	s.container = containers[i]
	all := slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses)
	for _, status := range all {
		if status.Name == s.container.Name {
			s.status = status
		}
	}
	if s.status.State.Running == nil {
		return nil, &notRunning{s}
	}
	return s, nil
}

func names(containers []container) string {
	var all []string
	for _, c := range containers {
		all = append(all, c.Name)
	}
	return strings.Join(all, ", ")
}

// text describes why a container is not running.
func (s *containerState) text() string {
	text := "it has not been started"
	switch {
	case s.Waiting != nil:
		text = s.Waiting.Reason
		if s.Waiting.Message != "" {
			text += ": " + s.Waiting.Message
		}
	case s.Terminated != nil:
		text = fmt.Sprintf("it has ended with status %d (%s)", s.Terminated.ExitCode, s.Terminated.Reason)
		if s.Terminated.Message != "" {
			text += ": " + strings.TrimSpace(s.Terminated.Message)
		}
	}
	return text
}

// owner returns the user and the group of the container, as far as the API knows them.
func (s *subject) owner() owner {
	o := s.container.SecurityContext.or(s.Spec.SecurityContext)
	if u := s.status.User; u != nil && u.Linux != nil {
		o = o.or(owner{&u.Linux.UID, &u.Linux.GID})
	}
	return o
}

// limit returns the memory limit of the pod, which a waiting container shares, or 0 if there is
// none.
func (p *pod) limit() int64 {
	if own := p.Spec.Resources.memory(); own > 0 {
		return own
	}
	var sum int64
	for _, c := range p.Spec.Containers {
		n := c.Resources.memory()
		if n == 0 {
			return 0
		}
		sum += n
	}
	return sum
}

// share returns the memory limit that the program shares with a waiting container, or 0 if there is
// none. If the pod has a limit, other containers may use the part that exceeds the limit of the
// program's container.
func (s *subject) share() int64 {
	limit := s.limit()
	if own := s.container.Resources.memory(); own > 0 {
		return min(own, limit)
	}
	return limit
}

// quantities are the unit suffixes of quantities of bytes.
var quantities = []struct {
	suffix string
	factor float64
}{
	{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40},
	{"k", 1e3}, {"K", 1 << 10}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"m", 1e-3},
}

// quantity returns the number of bytes of a quantity such as 128Mi, or 0 if it is invalid.
func quantity(text string) int64 {
	factor := 1.0
	for _, r := range quantities {
		if digits, ok := strings.CutSuffix(text, r.suffix); ok {
			text, factor = digits, r.factor
			break
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 {
		return 0
	}
	return int64(n * factor)
}
