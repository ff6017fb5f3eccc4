package stapsdt

import (
	"slices"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/call"
	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/recording/sink"
	"github.com/go-stapsdt/stapsdt/internal/words"
)

// delivery calls the observers of a probe with its fires.
type delivery struct {
	probe *Probe
	list  []*observer
}

// deliveryTo returns a delivery to those of the observers that want a probe's events, or nil if
// there are none. Only Observe refers to it, so that the linker leaves the 24 KiB of code for
// observers out of programs that do not call Observe.
func deliveryTo(p *Probe, list []*observer) sink.Probe {
	list = slices.DeleteFunc(slices.Clone(list), func(o *observer) bool { return !o.observes(p) })
	if len(list) == 0 {
		return nil
	}
	return &delivery{p, list}
}

// Append implements sink.Probe.
func (d *delivery) Append(args unsafe.Pointer) {
	for next := 0; next < len(d.list); {
		next = d.ended(d.deliver(next, args, nil))
	}
}

// AppendConverted implements sink.Probe.
func (d *delivery) AppendConverted(a *words.Arguments) {
	for next := 0; next < len(d.list); {
		next = d.ended(d.deliver(next, nil, a))
	}
}

// ended ends the observation of an observer that has panicked with nil, if there is one of this
// number, and returns the number of the next. An observer that has ended the goroutine does not
// arrive here.
func (d *delivery) ended(at int, reported bool) (next int) {
	if at < len(d.list) && !reported {
		d.list[at].panicked(d.probe.provider, nil)
	}
	return at + 1
}

// deliver calls observers from a number on until one panics, and returns the number of that one, or
// the number of all. It calls none if the goroutine is already in an observer. The arguments are at
// args or, if they were converted, in a. A panic is reported, unless it is with nil, as
// GODEBUG=panicnil=1 allows: until deliver has returned, this could be runtime.Goexit.
func (d *delivery) deliver(
	first int, args unsafe.Pointer, a *words.Arguments,
) (at int, reported bool) {
	m := observerGoroutines.add(call.Goroutine())
	if m.event == nil {
		return len(d.list), false
	}
	at = len(d.list) // a panic before an observer is called is the program's
	defer func() {
		if at == len(d.list) {
			d.leave(m, a == nil)
			return
		}
		defer d.leave(m, a == nil) // even if what is reported ends the goroutine
		if reason := recover(); reason != nil {
			reported = true
			d.list[at].panicked(d.probe.provider, reason)
		}
	}()
	e, p := m.event, d.probe
	e.probe = p
	if a == nil {
		// SAFETY: the caller passes the addresses of as many variables.
		p.convert(&e.arguments, unsafe.Slice((*unsafe.Pointer)(args), len(p.args)))
	} else {
		e.arguments.Texts = a.Texts
		// It is faster than a copy, because the words have only just been stored.
		for i := range min(len(p.args), MaxArgs) {
			e.arguments.Words[i] = a.Words[i]
		}
	}
	e.time = clock.Now()
	for at = first; at < len(d.list); at++ {
		if o := d.list[at]; !o.stopped.Load() {
			o.f((*plainEvent)(e))
		}
	}
	return at, false
}

// leave removes the goroutine from those that are in an observer, and releases the arguments of its
// event if they are its own.
func (d *delivery) leave(m mark, own bool) {
	if own {
		m.event.arguments.Release()
	}
	observerGoroutines.remove(m)
}
