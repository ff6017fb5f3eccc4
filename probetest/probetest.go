// Package probetest records the events of probes in tests: without a tracer, without root,
// and on every operating system.
//
//	func TestHandler(t *testing.T) {
//		rec := probetest.Record(t, probes)
//		get(t, "/index.html")
//		rec.Want(func() {
//			requestStart.Fire("/index.html")
//			requestDone.Fire("/index.html", 200)
//		})
//	}
//
// Want compares the events that were recorded with those that its function fires. The
// compiler checks the types of the expected arguments, as it checks those of the program. To
// look at single events, use [Recorder.Events]. To wait for events of other goroutines, use
// [Recorder.Wait]. The example shows what a failing test prints.
//
// The provider need not be loaded, but must not be closed. While it is recorded, its probes
// are enabled: the functions of FireFunc run, and the arguments of [stapsdt.Probe.Fire] are
// checked. A fire with wrong arguments fails the test, whether or not the program looks at
// the error.
//
// # Parallel tests
//
// A recorder sees what the whole process fires. Tests that run in parallel therefore need
// providers of their own, or a filter for their own events, such as an identifier among the
// arguments:
//
//	mine := probetest.Where(func(e *stapsdt.Event) bool {
//		return e.ArgByName("user").String() == user
//	})
//	rec.Want(func() { login.Fire(user, true) }, mine)
//
// # Bubbles
//
// Recorders work in bubbles of testing/synctest, where the events have the bubble's time. Call
// synctest.Wait in place of [Recorder.Wait] there.
package probetest

import (
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/call"
	"github.com/go-stapsdt/stapsdt/internal/words"
)

// Recorder holds the events of a provider that were fired since Record or Reset, in the order
// in which they were recorded. Events of one goroutine are in the order of their fires. Its
// methods are safe for concurrent use, but only the goroutine of the test may call Wait, as
// testing.T.FailNow requires. Record makes it: the zero Recorder must not be used.
type Recorder struct {
	t        testing.TB
	provider *stapsdt.Provider

	mu     sync.Mutex
	events []*stapsdt.Event
	ended  bool
	// expected are the events that functions of Want have fired, by goroutine.
	expected map[uintptr][]*stapsdt.Event
}

// Record records the events of a provider until the test ends. It ends the test with FailNow if
// the provider is nil or closed, because its probes do nothing. Several recorders may record one
// provider.
func Record(t testing.TB, p *stapsdt.Provider) *Recorder {
	t.Helper()
	if p == nil {
		t.Fatal("probetest: the provider is nil, and so its probes do nothing")
	}
	if !slices.Contains(stapsdt.Providers(), p) {
		t.Fatalf("probetest: the provider %s is closed, and so its probes do nothing", p.Name())
	}
	r := &Recorder{t: t, provider: p, expected: map[uintptr][]*stapsdt.Event{}}
	// SAFETY: p is a Provider, and not nil.
	stopMisfires := words.MisfiresOf(unsafe.Pointer(p)).Add(r.misfired)
	stop := p.Observe(r.record)
	t.Cleanup(func() {
		stop()
		stopMisfires()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended = true
	})
	return r
}

// record records an event.
func (r *Recorder) record(e *stapsdt.Event) {
	e = e.Clone()
	g := call.Goroutine()
	r.mu.Lock()
	defer r.mu.Unlock()
	if list, ok := r.expected[g]; ok {
		r.expected[g] = append(list, e)
	} else {
		r.events = append(r.events, e)
	}
}

// misfired fails the test for a fire with wrong arguments.
func (r *Recorder) misfired(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended { // Errorf would panic
		r.t.Errorf("probetest: %v\n\tfired at %s", err, firedAt())
	}
}

// firedAt returns the file and line of the call of Fire.
func firedAt() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	fire := false
	for {
		frame, more := frames.Next()
		if fire {
			return fmt.Sprintf("%s:%d", frame.File, frame.Line)
		}
		fire = strings.HasSuffix(frame.Function, "stapsdt.(*Probe).Fire")
		if !more {
			return "an unknown place"
		}
	}
}

// Option selects events, or how they are compared. Of several options that select
// events, an event must satisfy all. An Option must not be nil.
type Option func(*options)

type options struct {
	filters []func(*stapsdt.Event) bool
	ignored []string
}

func newOptions(opts []Option) *options {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	return &o
}

// Only selects the events of the given probes. For a typed probe, pass its field Probe:
// probetest.Only(&requestDone.Probe). Probes of the same name are selected together.
func Only(probes ...*stapsdt.Probe) Option {
	return Where(func(e *stapsdt.Event) bool {
		return slices.ContainsFunc(
			probes, func(p *stapsdt.Probe) bool { return p.Name() == e.Probe().Name() },
		)
	})
}

// OnlyNamed selects the events of the probes whose names match one of the patterns, which are
// those of path.Match: job__end, or job__* for both ends of the operation job. It panics if a
// pattern is malformed.
func OnlyNamed(patterns ...string) Option {
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil {
			panic(fmt.Sprintf("probetest: OnlyNamed: %q: %v", p, err))
		}
	}
	return Where(func(e *stapsdt.Event) bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			matched, _ := path.Match(p, e.Probe().Name())
			return matched
		})
	})
}

// Where selects the events for which selects returns true. selects must not be nil.
func Where(selects func(*stapsdt.Event) bool) Option {
	return func(o *options) { o.filters = append(o.filters, selects) }
}

// Ignore excludes the arguments with the given names from the comparison of Want, such as durations
// and addresses.
func Ignore(names ...string) Option {
	return func(o *options) { o.ignored = append(o.ignored, names...) }
}

// selected returns the events that the options select.
func (o *options) selected(events []*stapsdt.Event) (selected []*stapsdt.Event) {
	for _, e := range events {
		if !slices.ContainsFunc(
			o.filters, func(f func(*stapsdt.Event) bool) bool { return !f(e) },
		) {
			selected = append(selected, e)
		}
	}
	return selected
}

// all returns all that was recorded.
func (r *Recorder) all() []*stapsdt.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Events returns the events that were recorded and that the options select, the oldest first. They
// stay valid, as a Clone does.
func (r *Recorder) Events(opts ...Option) []*stapsdt.Event {
	return newOptions(opts).selected(r.all())
}

// Reset forgets the events that were recorded.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = nil
}

// Wait waits until at least n events that the options select are recorded, and returns all of them,
// the oldest first. If that takes longer than timeout, it ends the test with FailNow.
func (r *Recorder) Wait(n int, timeout time.Duration, opts ...Option) []*stapsdt.Event {
	r.t.Helper()
	o := newOptions(opts)
	for start := time.Now(); ; {
		late := time.Since(start) >= timeout
		all := r.all()
		events := o.selected(all)
		switch {
		case len(events) >= n:
			return events
		case late:
			r.t.Fatalf("probetest: %d of %d events of %s after %v; all that were recorded:\n%s",
				len(events), n, r.provider.Name(), timeout, list(all))
			return nil
		}
		// Not a channel: one of a bubble must not be used by a fire outside.
		time.Sleep(time.Millisecond)
	}
}

// list returns the events, a line for each.
func list(events []*stapsdt.Event) string {
	if len(events) == 0 {
		return "\tnone"
	}
	var s strings.Builder
	for _, e := range events {
		fmt.Fprintf(&s, "\t%v\n", e)
	}
	return strings.TrimSuffix(s.String(), "\n")
}

// Want calls fire, which fires the events that are expected. If these differ from the events that
// were recorded before, Want reports the difference with Errorf: the test fails, and continues.
// Only the events that the options select are compared. The recorded events remain until Reset.
// Events are equal if their probes have the same name and their arguments the same types and
// values. Their times are not compared.
//
// The events that fire itself fires, in its own goroutine, are not recorded. Tracers and other
// observers see them.
func (r *Recorder) Want(fire func(), opts ...Option) {
	r.t.Helper()
	o := newOptions(opts)
	got := o.selected(r.all())
	want := o.selected(r.expect(fire))
	if diff := o.diff(want, got); diff != "" {
		r.t.Errorf("probetest: the events of %s differ (-want +got):\n%s", r.provider.Name(), diff)
	}
}

// expect returns what fire fires, without what a Want in it has taken.
func (r *Recorder) expect(fire func()) (list []*stapsdt.Event) {
	g := call.Goroutine()
	set := func(list []*stapsdt.Event) (old []*stapsdt.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		old = r.expected[g]
		if list == nil {
			delete(r.expected, g)
		} else {
			r.expected[g] = list
		}
		return old
	}
	around := set([]*stapsdt.Event{})
	defer func() { list = set(around) }() // also if fire does not return
	fire()
	return nil
}
