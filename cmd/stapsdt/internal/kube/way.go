//go:build unix

package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/debugger"
)

// errSilent means that the program does not listen.
var errSilent = errors.New("the program does not listen: start it with STAPSDT_SOCKET=1, which probeenv.Load and the C library obey, or let it call probesock.Listen")

// way finds the place for a question: a waiting container in the pod if the program listens or is only listed, and otherwise
// the node agent. If the agent can be asked, it also tells whether a container would help, and for which user.
func (k *kubectl) way(ctx context.Context, q *Question, s *subject) (*place, error) {
	via := q.values["via"]
	var at *place
	var inside error // the reason why the pod cannot be asked
	if via != "kernel" {
		if at, inside = k.again(ctx, q, s); at != nil {
			return at, nil
		}
	}
	agent, answer, agentErr := k.askAgent(ctx, q, s)
	switch {
	case via == "kernel" || inside != nil:
	case agentErr == nil && !isListening(answer):
		inside = errSilent
	default:
		if at, inside = k.inPod(ctx, q, s, answer); inside == nil {
			return at, nil
		}
	}
	switch {
	case ctx.Err() != nil, via == "socket", errors.As(inside, new(*imageError)): // the search for the image included the agent
		return nil, inside
	case agentErr == nil:
		return agent, nil
	case via == "kernel":
		return nil, fmt.Errorf("--via kernel takes the node agent: %w", agentErr)
	}
	return nil, fmt.Errorf("%w; and %w", inside, agentErr)
}

// again returns a running waiting container that can answer, or nil. It returns an error if another container could not answer either.
func (k *kubectl) again(ctx context.Context, q *Question, s *subject) (*place, error) {
	for _, name := range s.waiting() {
		at := newPlace(s.pod, name, s.limit())
		answer, err := k.look(ctx, at, s)
		if err == nil {
			_, err = suits(q, answer)
		}
		switch {
		case err == nil:
			return at, nil
		case errors.Is(err, errSilent), errors.Is(err, errForbidden), errors.Is(err, errPod):
			return nil, err
		}
	}
	return nil, nil
}

// askAgent returns the agent on the pod's node, and its answer about the container. The answer is nil if the agent cannot be asked.
func (k *kubectl) askAgent(ctx context.Context, q *Question, s *subject) (*place, *debugger.Answer, error) {
	at, err := k.agent(ctx, q.agents, s.Spec.NodeName)
	if err != nil {
		return nil, nil, err
	}
	answer, err := k.look(ctx, at, s)
	return at, answer, err
}

func isListening(a *debugger.Answer) bool {
	return a != nil && slices.ContainsFunc(a.Processes, func(p debugger.Process) bool { return p.Listens })
}

// inPod adds a waiting container to the pod. known is the agent's answer about the program, or nil.
func (k *kubectl) inPod(ctx context.Context, q *Question, s *subject, known *debugger.Answer) (*place, error) {
	o := s.owner()
	if known != nil && len(known.Processes) > 0 {
		o = o.or(ownerOf(known.Processes[0]))
	}
	if !o.known() {
		o = o.or(k.lookAtUser(ctx, s))
	}
	at, err := k.add(ctx, q, s, o)
	if err != nil {
		return nil, err
	}
	answer, err := k.look(ctx, at, s)
	if err != nil {
		return nil, err
	}
	found, err := suits(q, answer)
	if !errors.Is(err, errOwner) || o.known() {
		return at, err
	}
	// The container was added to determine the user of the program. It cannot change its own user.
	if at, err = k.add(ctx, q, s, found); err != nil {
		return nil, err
	}
	if answer, err = k.look(ctx, at, s); err == nil {
		_, err = suits(q, answer)
	}
	return at, err
}

func ownerOf(p debugger.Process) owner {
	user, group := int64(p.UID), int64(p.GID)
	return owner{&user, &group}
}

func (k *kubectl) add(ctx context.Context, q *Question, s *subject, o owner) (*place, error) {
	image, err := k.image(ctx, q)
	if err != nil {
		return nil, err
	}
	user := int64(unknownUser)
	return k.start(ctx, s, image, o.or(owner{User: &user}), q.patience)
}

func (k *kubectl) image(ctx context.Context, q *Question) (string, error) {
	if q.image != "" {
		return q.image, nil
	}
	if image := os.Getenv("STAPSDT_IMAGE"); image != "" {
		return image, nil
	}
	image, err := k.agentImage(ctx, q.agents)
	if err != nil {
		return "", &imageError{err}
	}
	return image, nil
}

// imageError means that no image is known, because the agent's image is unknown.
type imageError struct{ cause error }

func (e *imageError) Error() string {
	return fmt.Sprintf("no image for the waiting container: give --image or set STAPSDT_IMAGE (%v)", e.cause)
}

func (e *imageError) Unwrap() error { return e.cause }

// errOwner means that the program is of another user or group than the container.
var errOwner = errors.New("the program is of another user or group")

// suits returns the user and the group of the program, and an error if the container cannot answer the question.
func suits(q *Question, a *debugger.Answer) (owner, error) {
	for _, p := range a.Processes {
		if p.Readable && (p.Listens || q.verb == "list") {
			return owner{}, nil
		}
	}
	if i := slices.IndexFunc(a.Processes, func(p debugger.Process) bool { return p.UID != a.UID || p.GID != a.GID }); i >= 0 {
		p := a.Processes[i]
		return ownerOf(p), fmt.Errorf("%w: process %d is of user %d and group %d, and the waiting container of %d and %d",
			errOwner, p.PID, p.UID, p.GID, a.UID, a.GID)
	}
	if slices.ContainsFunc(a.Processes, func(p debugger.Process) bool { return p.Readable }) {
		return owner{}, errSilent
	}
	return owner{}, errors.New("the program has capabilities, or has forbidden others to look at it, so that its own user may not")
}
