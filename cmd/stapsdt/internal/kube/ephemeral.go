//go:build unix

package kube

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kube/inpod"
)

const (
	// prefix is the prefix of the names of waiting containers. They are recognized by it and by the
	// target, not by their specs, because policies change these.
	prefix = "stapsdt-"
	// binary is the command in the image.
	binary = "/stapsdt"
	// unknownUser is the user of a container that determines the user of the program.
	unknownUser = 65532
)

// place is a container in which requests are executed.
type place struct {
	namespace, pod, container string
	// memory is the number of bytes that a request may allocate, and limit the memory limit of the
	// container or pod, or 0.
	memory, limit int64
	agent         bool
	// resumes means that a stream can be resumed after its connection was lost.
	resumes bool
}

// String describes the place for people.
func (p *place) String() string {
	if p.agent {
		return fmt.Sprintf("the node agent %s/%s", p.namespace, p.pod)
	}
	return fmt.Sprintf("the container %s of the pod %s/%s", p.container, p.namespace, p.pod)
}

// Bounds of place.memory.
const (
	minMemory   = 24 << 20
	memoryShare = 8 // the memory is 1/memoryShare of the limit
)

// newPlace returns a place whose commands may use a share of the memory limit.
func newPlace(p *pod, container string, limit int64) *place {
	memory := int64(inpod.Memory)
	if limit > 0 {
		memory = min(memory, max(minMemory, limit/memoryShare))
	}
	return &place{
		namespace: p.Metadata.Namespace, pod: p.Metadata.Name, container: container, memory: memory,
		limit: limit,
	}
}

// waiting returns the running waiting containers for a container, the latest first.
func (s *subject) waiting() (all []string) {
	for _, c := range s.Spec.EphemeralContainers {
		if s.isRunning(c.Name) && strings.HasPrefix(c.Name, prefix) && s.isServedBy(&c) {
			all = append(all, c.Name)
		}
	}
	slices.Reverse(all)
	return all
}

// start adds a waiting container to a pod, and returns it once it runs.
func (k *kubectl) start(
	ctx context.Context, s *subject, image string, o owner, patience time.Duration,
) (*place, error) {
	at := newPlace(s.pod, prefix+strings.ToLower(rand.Text()[:5]), s.limit())
	custom, err := writeCustom(o, s.mounts)
	if err != nil {
		return nil, err
	}
	defer os.Remove(custom)
	profile := "restricted"
	if o.User != nil && *o.User == 0 { // the restricted profile does not admit root
		profile = "baseline"
	}
	_, err = k.run(ctx, slices.Concat(
		[]string{"debug", "--namespace=" + s.Metadata.Namespace, s.Metadata.Name},
		[]string{"--image=" + image, "--image-pull-policy=IfNotPresent"}, s.targetFlag(),
		[]string{"--container=" + at.container, "--profile=" + profile, "--custom=" + custom},
		[]string{"--attach=false", "--quiet", "--"}, at.command("wait", s))...)
	switch {
	case err == nil:
	case errors.Is(err, errForbidden) && strings.Contains(err.Error(), "ephemeralcontainers"):
		return nil, forbidden("you may not add a container to pods of the namespace %s: this takes the right to patch pods/ephemeralcontainers (docs/kubernetes.md has a role for it)", s.Metadata.Namespace)
	case strings.Contains(err.Error(), "unknown flag: --custom"):
		return nil, fmt.Errorf("kubectl 1.30 or later is needed: %w", err)
	default:
		return nil, fmt.Errorf("the waiting container was refused: %w", err)
	}
	return at, k.awaitRunning(ctx, s.pod, at.container, image, patience)
}

// writeCustom writes a file with the settings that the profile of kubectl debug leaves open.
func writeCustom(o owner, mounts []volumeMount) (path string, err error) {
	context := struct {
		owner
		Escalation bool `json:"allowPrivilegeEscalation"`
	}{owner: o}
	custom := map[string]any{"securityContext": context, "terminationMessagePolicy": "FallbackToLogsOnError"}
	if mounts != nil {
		custom["volumeMounts"] = mounts
	}
	b, err := json.Marshal(custom)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp("", "stapsdt-*.json")
	if err != nil {
		return "", err
	}
	if _, err = f.Write(b); err == nil {
		err = f.Close()
	}
	return f.Name(), err
}

// hopeless lists the reasons for waiting that never end by themselves.
var hopeless = []string{
	"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError", "RegistryUnavailable",
	"CreateContainerConfigError", "CreateContainerError", "RunContainerError",
}

func (k *kubectl) awaitRunning(
	ctx context.Context, p *pod, name, image string, patience time.Duration,
) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	reason := "its status is not known"
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		now, err := k.pod(ctx, p.Metadata.Namespace, p.Metadata.Name)
		if err != nil && ctx.Err() == nil {
			return err
		}
		for _, s := range now.Status.EphemeralContainerStatuses {
			if s.Name != name {
				continue
			}
			switch {
			case s.State.Running != nil:
				return nil
			case s.State.Terminated != nil,
				s.State.Waiting != nil && slices.Contains(hopeless, s.State.Waiting.Reason):
				return fmt.Errorf("the waiting container (image %s) does not start: %s", image, s.State.text())
			}
			reason = s.State.text()
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("the waiting container (image %s) has not started within %v: %s", image, patience, reason)
			}
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// isRunning reports whether a waiting container runs.
func (p *pod) isRunning(name string) bool {
	return slices.ContainsFunc(p.Status.EphemeralContainerStatuses, func(s containerStatus) bool {
		return s.Name == name && s.State.Running != nil
	})
}

// look returns a place's view of the container: its processes, and how they can be
// watched.
func (k *kubectl) look(ctx context.Context, at *place, s *subject) (*inpod.Answer, error) {
	out, err := k.run(ctx, slices.Concat([]string{"exec"}, at.exec(), at.command("look", s), s.recorded)...)
	switch {
	case errors.Is(err, errForbidden):
		return nil, forbidden("you may not run commands in pods of the namespace %s: %v", at.namespace, err)
	case errors.Is(err, errPodUsage):
		return nil, otherVersion(at)
	case err != nil:
		return nil, err
	}
	answer := &inpod.Answer{}
	if json.Unmarshal(out, answer) != nil || answer.Protocol != inpod.Protocol {
		return nil, otherVersion(at)
	}
	at.resumes = answer.Resumes == inpod.Resumes
	return answer, nil
}

func otherVersion(at *place) error {
	return fmt.Errorf("%v has another version of stapsdt, or another command", at)
}

// exec returns the arguments of kubectl exec that precede a command.
func (p *place) exec() []string {
	return []string{"--namespace=" + p.namespace, p.pod, "--container=" + p.container, "--"}
}

// command returns a command of package inpod about a container.
func (p *place) command(name string, s *subject) []string {
	args := []string{binary, inpod.Verb, name, "--container=" + s.id(), "--memory=" + strconv.FormatInt(p.memory, 10)}
	switch {
	case p.agent && p.limit > 0:
		args = append(args, "--limit="+strconv.FormatInt(p.limit, 10))
	case p.limit > 0:
		args = append(args, "--limit="+strconv.FormatInt(s.share(), 10), "--shared")
	}
	if s.alone() && s.mounts == nil && !p.agent {
		args = append(args, "--alone")
	}
	return args
}

// ask returns the arguments of kubectl exec for a request about a container, without its verb.
func (p *place) ask(of *subject) []string {
	pod := "--pod=" + of.Metadata.Namespace + "/" + of.Metadata.Name + "/" + of.container.Name
	names := []string{pod, "--node=" + of.Spec.NodeName}
	return slices.Concat(p.exec(), p.command("ask", of), of.recorded, names)
}

// lookAtUser reads the container's user and group in the container itself, if it has cat. Many
// images have no programs.
func (k *kubectl) lookAtUser(ctx context.Context, s *subject) (o owner) {
	out, err := k.run(
		ctx, "exec", "--namespace="+s.Metadata.Namespace, s.Metadata.Name, "--container="+s.container.Name, "--", "cat", "/proc/self/status",
	)
	if err != nil {
		return o
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		n, err := strconv.ParseInt(fields[2], 10, 64)
		switch {
		case err != nil:
		case fields[0] == "Uid:":
			o.User = &n
		case fields[0] == "Gid:":
			o.Group = &n
		}
	}
	return o
}
