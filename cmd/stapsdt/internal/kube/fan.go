//go:build unix

package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
)

// searches is the maximum number of pods for which places are searched at a time.
const searches = 8

// fan executes a request for all pods of a selection.
type fan struct {
	kubectl *kubectl
	request *Request
	out     *os.File
	err     io.Writer
	slots   chan struct{} // has an element for each search that is going on
}

func newFan(k *kubectl, r *Request, out *os.File, err io.Writer) fan {
	return fan{kubectl: k, request: r, out: out, err: err, slots: make(chan struct{}, searches)}
}

func (f *fan) warn(format string, args ...any) { warn(f.err, format, args...) }

func (f *fan) execute(verb localVerb) (status int, err error) {
	r := f.request
	for _, arg := range r.args {
		if strings.HasPrefix(arg, "go:") && (r.verb == "tree" || r.verb == "latency" || r.verb == "top") {
			return 0, console.Usagef("%s pairs the calls of functions in one pod only: give POD", r.verb)
		}
	}
	switch r.verb {
	case "list":
		return 0, f.list()
	case "record":
		return 0, f.record()
	}
	return verb(newReplicas(f.kubectl, r), r.local()), nil
}

// local returns the command line of the verb that runs on this machine. Conditions of latency, top
// and tree are about operations, and are evaluated here.
func (r *Request) local() []string {
	words := []string{r.verb}
	for _, word := range r.passed {
		name, _, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		if name != "via" && name != "budget" && name != "verbose" {
			words = append(words, word)
		}
	}
	if file := r.values[fileFlag]; file != "" {
		words = append(words, "--"+fileFlag+"="+file)
	}
	if groups := r.verb != "trace" && r.verb != "tree"; groups && r.values["by"] == "" {
		by := "--by=pod"
		if r.selection.everywhere {
			by = "--by=namespace,pod"
		}
		words = append(words, by)
	}
	return append(append(words, "--"), r.args...)
}

// podsError is the error if no pod could execute a request.
type podsError struct {
	text   string
	status int
}

func (e *podsError) Error() string { return e.text }

// ExitStatus returns the exit status for the error.
func (e *podsError) ExitStatus() int { return e.status }

// podError is the error of a pod.
type podError struct {
	pod string
	err error
}

// none returns the error for a request that no pod could execute. say is called with errors that
// differ.
func (s *selection) none(all []podError, say func(podError)) error {
	if len(all) == 0 {
		return fmt.Errorf("%v has no running pod: %w", s, errNotFound)
	}
	slices.SortFunc(all, func(a, b podError) int { return cmp.Compare(a.pod, b.pod) })
	first, same := console.ErrorText(all[0].err), true
	for _, one := range all {
		same = same && console.ErrorText(one.err) == first
	}
	status := statusOf(all[0].err)
	switch {
	case len(all) == 1:
		return &podsError{fmt.Sprintf("the pod %s: %s", all[0].pod, first), status}
	case same:
		return &podsError{fmt.Sprintf("none of %s of %v: %s", text.Number(len(all), "pod"), s, first), status}
	}
	for _, one := range all {
		say(one)
	}
	return &podsError{fmt.Sprintf("none of %s of %v can be asked", text.Number(len(all), "pod"), s), status}
}

// each calls do with the index of each pod, for all at the same time. It says the errors of pods,
// and returns an error if there is one for each.
func (f *fan) each(all []pod, do func(ctx context.Context, i int, problems io.Writer) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	lines := &lines{to: f.err}
	var failed []podError
	var mu sync.Mutex
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() {
			err := do(ctx, i, lines.of(all[i].String()))
			if mu.Lock(); err != nil {
				failed = append(failed, podError{all[i].String(), err})
			}
			mu.Unlock()
		})
	}
	group.Wait()
	say := func(one podError) { f.warn("%s: %s", one.pod, console.ErrorText(one.err)) }
	if len(failed) == len(all) {
		return f.request.selection.none(failed, say)
	}
	for _, one := range failed {
		say(one)
	}
	return nil
}

// place finds the container of a pod, and a place that can execute the request.
func (f *fan) place(ctx context.Context, p *pod) (*subject, *place, error) {
	s, err := p.choose(f.request.selection.container)
	if err != nil {
		return nil, nil, err
	}
	at, err := f.locate(ctx, s)
	return s, at, err
}

// locate finds a place that can execute the request for a container, when few other searches are
// going on.
func (f *fan) locate(ctx context.Context, s *subject) (*place, error) {
	f.slots <- struct{}{}
	defer func() { <-f.slots }()
	return f.kubectl.locate(ctx, f.request, s)
}

// errStatus returns the error for the exit status of a command in a pod that has printed its error.
func errStatus(status int, said string) error {
	if said == "" {
		said = fmt.Sprintf("the command in the pod has failed with status %d", status)
	}
	return &podsError{said, status}
}

// errLost is the error if a pod's stream has ended early.
var errLost = errors.New("the connection to the pod was lost")
