//go:build unix

package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kube/inpod"
)

// errSilent means that the program does not listen.
var errSilent = errors.New("the program does not listen: start it with STAPSDT_SOCKET=1, which probeenv.Load and the C library obey, or let it call probesock.Listen")

// silent returns the errSilent for a container in which no process listens.
func silent(a *inpod.Answer) error {
	if slices.ContainsFunc(a.Processes, func(p inpod.Process) bool { return p.Asked }) {
		return &clusterError{errSilent, "the program does not listen: its environment has STAPSDT_SOCKET=1, but it has not made its socket. Its log has the reason, such as a file system that it may not write to, unless it never calls probeenv.Load. A volume and STAPSDT_DIR give it a directory (docs/kubernetes.md)"}
	}
	return errSilent
}

// search finds a place for a request.
type search struct {
	*kubectl
	request *Request
	subject *subject
	user    owner // the program's, as far as it is known before a place has looked
	seen    owner // the program's, as seen by a place that runs as another user
	inside  error // why the pod cannot serve the request

	agent    *place
	answer   *inpod.Answer // the agent's, for the container
	agentErr error
}

// locate returns the place for a request: the first of these that can execute it.
func (k *kubectl) locate(ctx context.Context, r *Request, s *subject) (*place, error) {
	w := &search{kubectl: k, request: r, subject: s, user: s.owner()}
	for _, candidate := range w.candidates() {
		at, err := candidate(ctx)
		switch {
		case err == nil && at != nil:
			return at, nil
		case err != nil && (ctx.Err() != nil || errors.As(err, new(*imageError))):
			return nil, err // the search for the image included the agent
		case err != nil:
			w.inside = err
		}
	}
	return nil, w.inside
}

// candidates returns the places in the order in which they are tried. The agent does not see the
// volumes of a container that does not run.
func (w *search) candidates() []func(context.Context) (*place, error) {
	in := []func(context.Context) (*place, error){w.waiting, w.added, w.addedForUser}
	if w.subject.mounts != nil {
		return in
	}
	return append(in, w.onNode)
}

// demands reports whether the request demands a route: kernel or socket.
func (w *search) demands(via string) bool { return w.request.values["via"] == via }

// try returns an error if a place cannot execute the request.
func (w *search) try(ctx context.Context, at *place) error {
	for began := time.Now(); ; time.Sleep(lifeInterval) {
		answer, err := w.look(ctx, at, w.subject)
		if err == nil {
			w.seen, err = suits(w.request, answer)
		}
		// A program that has just begun does not listen yet.
		tooEarly := w.request.waits() && errors.Is(err, errSilent)
		if !tooEarly || time.Since(began) > listenPatience || ctx.Err() != nil {
			return err
		}
	}
}

// listenPatience is the time that a program may take to listen if the request waits for it.
const listenPatience = 10 * time.Second

// waiting returns a container that was added for an earlier request, or nil.
func (w *search) waiting(ctx context.Context) (*place, error) {
	if w.demands("kernel") {
		return nil, nil
	}
	for _, name := range w.subject.waiting() {
		at := newPlace(w.subject.pod, name, w.subject.limit())
		err := w.try(ctx, at)
		switch {
		case err == nil:
			return at, nil
		case errors.Is(err, errSilent), errors.Is(err, errForbidden), errors.Is(err, errPod):
			return nil, err // another container could not execute it either
		}
	}
	return nil, nil
}

// added adds a container and returns it, or nil if the agent reports that it would not
// help.
func (w *search) added(ctx context.Context) (*place, error) {
	if w.demands("kernel") || w.inside != nil {
		return nil, nil
	}
	if w.subject.mounts != nil {
		return w.start(ctx, w.user)
	}
	if w.tryAgent(ctx) == nil && !isListening(w.answer) && !w.request.waits() {
		return nil, silent(w.answer)
	}
	if w.answer != nil && len(w.answer.Processes) > 0 {
		w.user = w.user.or(ownerOf(w.answer.Processes[0]))
	}
	if !w.user.known() {
		w.user = w.user.or(w.lookAtUser(ctx, w.subject))
	}
	return w.start(ctx, w.user)
}

// addedForUser adds a container that runs as the program's user and returns it. The previous
// container has determined the user, but cannot change its own.
func (w *search) addedForUser(ctx context.Context) (*place, error) {
	if !errors.Is(w.inside, errOwner) || w.user.known() {
		return nil, nil
	}
	return w.start(ctx, w.seen)
}

// start adds a container that runs as a user, and returns it.
func (w *search) start(ctx context.Context, user owner) (*place, error) {
	if err := w.admits(ctx); err != nil {
		return nil, err
	}
	at, err := w.add(ctx, w.request, w.subject, user)
	if err == nil {
		err = w.try(ctx, at)
	}
	return at, err
}

// onNode returns the agent on the pod's node.
func (w *search) onNode(ctx context.Context) (*place, error) {
	if w.demands("socket") {
		return nil, nil
	}
	switch err := w.tryAgent(ctx); {
	case err == nil:
		return w.agent, nil
	case w.demands("kernel"):
		return nil, fmt.Errorf("--via kernel takes the node agent: %w", err)
	case w.agent == nil && !slices.ContainsFunc(agentHelps, w.isInside):
		return nil, w.inside
	default:
		return nil, fmt.Errorf("%w; and %w", w.inside, err)
	}
}

// agentHelps are the reasons why a pod cannot serve a request for which a node agent is a remedy.
var agentHelps = []error{errSilent, errShort, errHidden, errPod}

func (w *search) isInside(reason error) bool { return errors.Is(w.inside, reason) }

// errHidden means that even the program's own user may not inspect it.
var errHidden = errors.New("the program has capabilities, or has forbidden others to look at it, so that even its own user may not")

// minLimit is the least memory limit of a pod in which a request can run: it has room for the
// waiting process and a request, and for the memory that they leave free.
const minLimit = 20 << 20

// errShort means that the memory limit of the pod is too low.
var errShort = errors.New("the memory limit is too low")

// admits returns an error if adding a container, which would stay in the pod's description, would
// be useless.
func (w *search) admits(ctx context.Context) error {
	if limit := w.subject.share(); limit > 0 && limit < minLimit {
		return fmt.Errorf("%w: %s may use %d bytes, but a request in the pod needs %d",
			errShort, w.subject, limit, minLimit)
	}
	meta := w.subject.Metadata
	out, err := w.run(ctx, "auth", "can-i", "create", "pods/"+meta.Name, "--subresource=exec",
		"--namespace="+meta.Namespace)
	if err != nil && strings.HasPrefix(string(out), "no") {
		return forbidden("you may not run commands in pods of the namespace %s: this takes the right to create pods/exec",
			meta.Namespace)
	}
	return nil // if nothing is known, it is tried
}

// tryAgent finds the agent on the pod's node, and lets it look at the container, once.
func (w *search) tryAgent(ctx context.Context) error {
	if w.agent != nil || w.agentErr != nil {
		return w.agentErr
	}
	w.agent, w.agentErr = w.kubectl.agent(ctx, w.request.agents, w.subject.Spec.NodeName)
	if w.agentErr == nil {
		w.answer, w.agentErr = w.look(ctx, w.agent, w.subject)
	}
	return w.agentErr
}

func isListening(a *inpod.Answer) bool {
	listens := func(p inpod.Process) bool { return p.Listens }
	return a != nil && slices.ContainsFunc(a.Processes, listens)
}

func ownerOf(p inpod.Process) owner {
	user, group := int64(p.UID), int64(p.GID)
	return owner{&user, &group}
}

func (k *kubectl) add(ctx context.Context, r *Request, s *subject, o owner) (*place, error) {
	image, err := k.image(ctx, r)
	if err != nil {
		return nil, err
	}
	user := int64(unknownUser)
	return k.start(ctx, s, image, o.or(owner{User: &user}), r.patience)
}

func (k *kubectl) image(ctx context.Context, r *Request) (string, error) {
	if r.image != "" {
		return r.image, nil
	}
	if image := os.Getenv("STAPSDT_IMAGE"); image != "" {
		return image, nil
	}
	image, err := k.agentImage(ctx, r.agents)
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

// errOwner means that the program runs as another user or group than the container.
var errOwner = errors.New("the program runs as another user or group")

// suits returns the user and the group of the program, and an error if the container cannot execute
// the request.
func suits(r *Request, a *inpod.Answer) (owner, error) {
	for _, p := range a.Processes {
		if p.Readable && (p.Listens || r.verb == "list" || r.readsRecording()) {
			return owner{}, nil
		}
	}
	isOthers := func(p inpod.Process) bool { return p.UID != a.UID || p.GID != a.GID }
	if i := slices.IndexFunc(a.Processes, isOthers); i >= 0 {
		p := a.Processes[i]
		if p.PID == 0 {
			return ownerOf(p), fmt.Errorf("%w: the directory of its recordings belongs to %d:%d, but the container runs as %d:%d",
				errOwner, p.UID, p.GID, a.UID, a.GID)
		}
		return ownerOf(p), fmt.Errorf("%w: process %d runs as %d:%d, but the container as %d:%d",
			errOwner, p.PID, p.UID, p.GID, a.UID, a.GID)
	}
	if slices.ContainsFunc(a.Processes, func(p inpod.Process) bool { return p.Readable }) {
		return owner{}, silent(a)
	}
	return owner{}, errHidden
}
