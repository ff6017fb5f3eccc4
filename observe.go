package stapsdt

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/call"
	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/recording/sink"
	"github.com/go-stapsdt/stapsdt/internal/words"
)

// observers are the observers of a provider, and the recordings to which its fires are appended.
type observers struct {
	list     []*observer
	sinks    []sink.Sink
	delivery func(p *Probe, list []*observer) sink.Probe // deliveryTo, or nil without a list
}

// observer is a function that Observe was called with.
type observer struct {
	f       func(*plainEvent)
	only    map[*Probe]bool // the first probes of the names that it observes, or nil for all
	stopped atomic.Bool
}

// plainEvent is an Event without its methods. The linker keeps the methods of the types to which a
// Provider leads, and String would bring the text of all kinds of values to every program.
type plainEvent Event

// observes reports whether the observer wants a probe's events. Probes of one name are sites of one
// event.
func (o *observer) observes(p *Probe) bool { return o.only == nil || o.only[p.first] }

// observedByte is the target of at while a probe is observed. It reads as patched, and is never
// executed: package call enters site, which is another byte.
var observedByte = [1]byte{call.Bits}

// Observe calls f with each event of the given probes of the provider, and of others of their
// names, or of all of its probes if none is given, until stop is called. Probes of other providers
// are ignored. f runs in the goroutine that fires, before Fire returns. Observe needs no tracer, no
// privileges and no Load, and works on every operating system: an observer sees the events of a
// provider that is loaded, not yet loaded, or unloaded, and, if no probes are given, the events of
// probes that are defined later. A provider may have any number of observers. An observer sees
// every event whose Fire begins after Observe has returned and returns before stop is called.
//
// Several goroutines may call f at once. f must not keep the Event or its text after it returns,
// but may keep a Clone. A fire takes as long as its observers, and 50 to 100 ns more: f should be
// quick, and if it blocks, so does the goroutine that fires. An event that f itself fires, of any
// provider, reaches tracers but no observer, so that f cannot call itself through a probe.
//
// A panic in f does not reach the goroutine that fires. It ends the observation as stop
// does, and is reported, with its stack, on standard error. runtime.Goexit in f, which
// testing.T.FailNow calls, ends the goroutine that fires.
//
// stop may be called from any goroutine, including from f, and more than once. A fire that
// begins after stop has returned does not call f. Nothing waits for a fire, and neither does
// stop: calls of f that have begun may still be running. While a probe is observed, it is
// enabled, and its arguments are evaluated and checked as they are for a tracer. Observing
// one probe leaves the others as they are.
//
// Close ends every observation. Observe does nothing if the provider is closed, zero or nil,
// or if f is nil; the stop that it returns can be called nevertheless.
func (p *Provider) Observe(f func(*Event), probes ...*Probe) (stop func()) {
	if p.zero() || f == nil {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return func() {}
	}
	clock.Now() // sets the clock's origin, which takes longer than a later call
	o := &observer{f: func(e *plainEvent) { f((*Event)(e)) }}
	for _, probe := range probes {
		if o.only == nil {
			o.only = make(map[*Probe]bool, len(probes))
		}
		if probe != nil && probe.provider == p && probe.first != nil {
			o.only[probe.first] = true
		}
	}
	all := p.copyObservers()
	all.list, all.delivery = append(all.list, o), deliveryTo
	p.setObservers(all)
	return func() { p.stop(o) }
}

// stop ends an observation.
func (p *Provider) stop(o *observer) {
	o.stopped.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.copyObservers()
	all.list = slices.DeleteFunc(all.list, func(other *observer) bool { return other == o })
	p.setObservers(all)
}

// copyObservers returns a copy of the observers, to be changed. The lock is held.
func (p *Provider) copyObservers() *observers {
	o := p.observers.Load()
	if o == nil {
		return new(observers)
	}
	all := *o
	all.list, all.sinks = slices.Clone(o.list), slices.Clone(o.sinks)
	return &all
}

// setObservers replaces the observers. With nil, it ends every observation. The lock is held.
func (p *Provider) setObservers(o *observers) {
	if o == nil {
		for _, last := range p.observerList() {
			last.stopped.Store(true)
		}
	} else if len(o.list) == 0 && len(o.sinks) == 0 {
		o = nil
	}
	p.observers.Store(o)
	for _, probe := range p.probes {
		probe.watch(o)
	}
}

// observerList returns the observers that are functions.
func (p *Provider) observerList() []*observer {
	if o := p.observers.Load(); o != nil {
		return o.list
	}
	return nil
}

// watch makes on report that the probe is enabled if one of the observers wants its events, and
// otherwise makes it look at the site again. The provider's lock is held.
func (p *Probe) watch(o *observers) {
	var s *sinks
	if o != nil {
		s = p.sinksOf(o)
	}
	p.sinks.Store(s)
	// SAFETY: at only ever points to a byte that may be read: observedByte, or the byte of site.
	if s != nil && s.Probe != nil {
		atomic.StorePointer(&p.at, unsafe.Pointer(&observedByte[0]))
	} else {
		atomic.StorePointer(&p.at, atomic.LoadPointer(&p.site))
	}
}

// observed reports whether the probe has observers that a fire must call.
func (p *Probe) observed() bool {
	return atomic.LoadPointer(&p.at) == unsafe.Pointer(&observedByte[0])
}

// notify passes a fire to the recordings and to the observers.
func (p *Probe) notify(a *words.Arguments) {
	if s := p.sinks.Load(); s != nil && s.Probe != nil {
		// SAFETY: it is the same pointer, which lives until notify returns.
		s.AppendConverted((*words.Arguments)(words.NoEscape(unsafe.Pointer(a))))
	}
}

// untraced returns what sees a fire in the program. It returns nil if nothing does, or if a tracer
// does too, for which the arguments must be converted.
func (p *Probe) untraced() *sinks {
	s := p.sinks.Load()
	if s == nil || s.Probe == nil || patched((*byte)(atomic.LoadPointer(&p.site))) {
		return nil
	}
	return s
}

// panicked ends an observation that has panicked.
func (o *observer) panicked(p *Provider, reason any) {
	p.stop(o)
	stack := make([]byte, 16<<10)
	stack = stack[:runtime.Stack(stack, false)]
	fmt.Fprintf(os.Stderr, "stapsdt: an observer of %s panicked and is no longer called: %v\n\n%s", printable(p.name), reason, stack)
}
