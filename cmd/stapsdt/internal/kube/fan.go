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

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
)

// searches is the maximum number of pods for which places are searched at a time.
const searches = 8

// fan sends a request to all pods of a selection. For list and record, it executes the request in
// each pod; for other verbs, replicas use it to begin streams of events.
type fan struct {
	kubectl *kubectl
	request *Request
	out     *os.File
	warn    func(format string, args ...any) // prints a message to standard error
	said    sync.Map                         // the messages that are printed only once
	slots   chan struct{}                    // has an element for each search in progress
}

func newFan(k *kubectl, r *Request, out *os.File, err io.Writer) *fan {
	say := func(format string, args ...any) { warn(err, format, args...) }
	slots := make(chan struct{}, searches)
	return &fan{kubectl: k, request: r, out: out, warn: say, slots: slots}
}

func (f *fan) execute(verb localVerb) (status int, err error) {
	r := f.request
	for _, arg := range r.args {
		if strings.HasPrefix(arg, "go:") && (r.verb == "tree" || r.verb == "latency" || r.verb == "top") {
			return 0, query.Usagef("%s pairs the calls of functions in one pod only: give POD", r.verb)
		}
	}
	if r.verb != "list" && r.verb != "record" {
		return verb(newReplicas(f), r.local()), nil
	}
	all, err := f.pods(context.Background())
	if err != nil {
		return 0, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), console.Ends()...)
	defer stop()
	if r.verb == "list" {
		return 0, f.list(ctx, all)
	}
	return 0, f.record(ctx, all)
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

// pods returns the running pods of the selection, or an error if there are none.
func (f *fan) pods(ctx context.Context) ([]pod, error) {
	s := &f.request.selection
	all, err := f.kubectl.running(ctx, s)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%v has no running pod: %w", s, errNotFound)
	}
	if err != nil {
		return nil, &podsError{err.Error(), statusOf(err)}
	}
	return all, nil
}

// podError is the error of a pod.
type podError struct {
	pod string
	err error
}

// each calls ask with the index of each pod, for all at the same time, and reports the errors.
func (f *fan) each(all []pod, ask func(i int) error) error {
	outcomes := make(chan podError)
	for i := range all {
		go func() { outcomes <- podError{all[i].String(), ask(i)} }()
	}
	var failed []podError
	for range all {
		if o := <-outcomes; o.err != nil {
			failed = append(failed, o)
		}
	}
	return f.report(failed, len(all))
}

// report prints the errors of the pods that failed. If all did, it returns an error, in place of
// theirs if they are the same. number is the number of pods that were asked.
func (f *fan) report(failed []podError, number int) error {
	slices.SortFunc(failed, func(a, b podError) int { return cmp.Compare(a.pod, b.pod) })
	all := len(failed) == number
	same := !slices.ContainsFunc(failed, func(one podError) bool {
		return one.err.Error() != failed[0].err.Error()
	})
	if !all || !same {
		for _, one := range failed {
			f.say("%s: %v", one.pod, one.err)
		}
	}
	if !all {
		return nil
	}
	who, why := "the pod "+failed[0].pod, " can be asked"
	if number > 1 {
		who = fmt.Sprintf("none of %s of %v", text.Number(number, "pod"), &f.request.selection)
	}
	if same {
		why = fmt.Sprintf(": %v", failed[0].err)
	}
	return &podsError{who + why, statusOf(failed[0].err)}
}

// say prints a message, unless it was printed before.
func (f *fan) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if f.isNew(line) {
		f.warn("%s", line)
	}
}

// isNew reports whether a message is the first with this text.
func (f *fan) isNew(text string) bool {
	_, again := f.said.LoadOrStore(text, true)
	return !again
}

// ask executes a request for a pod, with the output out, and returns its container.
func (f *fan) ask(ctx context.Context, p *pod, r *Request, out io.Writer) (*subject, error) {
	said := &held{}
	a := &execution{request: r, kubectl: f.kubectl, out: out, err: said, signals: catchSignals()}
	defer signal.Stop(a.signals)
	s, err := p.choose(r.selection.container)
	if err != nil {
		return nil, err
	}
	at, err := f.locate(ctx, s)
	if err != nil {
		return nil, err
	}
	a.subject = s
	status, err := a.run(at)
	if err == nil && status != 0 {
		return nil, errStatus(status, said.last())
	}
	said.pass(func(line string) { f.warn("%v: %s", p, line) })
	return s, err
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
