package postmortem

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

const (
	// perTrail is the number of events of a goroutine that are kept, the last ones.
	perTrail = 3
	// maxTrails is the maximum number of goroutines whose events are kept at once. A goroutine with
	// an old operation was there before others.
	maxTrails = 4096
)

// ring keeps the last events.
type ring struct {
	most int
	kept []recording.Event
	next int // the index of the oldest one, if there are most
}

// add adds an event.
func (r *ring) add(e *recording.Event) {
	if len(r.kept) < r.most {
		r.kept = append(r.kept, recording.Event{})
		keep(&r.kept[len(r.kept)-1], e)
		return
	}
	keep(&r.kept[r.next], e)
	r.next = (r.next + 1) % r.most
}

// all returns the events, the oldest first.
func (r *ring) all() (all []*recording.Event) {
	for i := range r.kept {
		all = append(all, &r.kept[(r.next+i)%len(r.kept)])
	}
	return all
}

// keep copies an event, with the part of its texts that is shown. It reuses the memory of the copy.
func keep(to, e *recording.Event) {
	to.Reset(e.Probe, e)
	for i, a := range e.Probe.Args {
		if a.Kind != kind.String {
			to.Set(i, e.Integer(i))
			continue
		}
		text, cut := value.Cut(e.Text(i), evaluate.TextSize)
		if to.SetText(i, text); cut {
			to.Cut |= 1 << i
		}
	}
}

// thread identifies a goroutine, or a thread if the program has none.
type thread struct {
	pid, tid  uint32
	goroutine uint64
}

// threadOf returns the thread of an operation.
func threadOf(o *pairing.Operation) thread { return thread{o.PID, o.TID, o.Goroutine} }

// trail has the last events of a goroutine that has open operations.
type trail struct {
	ring
	open int
}

// trails has the trails of all goroutines with open operations.
type trails struct {
	all  map[thread]*trail
	free []*trail
}

// start notes that an operation has begun.
func (t *trails) start(o *pairing.Operation) {
	at := threadOf(o)
	one := t.all[at]
	switch last := len(t.free) - 1; {
	case one != nil:
	case len(t.all) == maxTrails:
		return
	case last >= 0:
		one, t.free = t.free[last], t.free[:last]
		*one = trail{ring: ring{most: perTrail, kept: one.kept[:0]}}
	default:
		one = &trail{ring: ring{most: perTrail}}
	}
	one.open++
	t.all[at] = one
}

// end notes that an operation has ended. If it began when there was no room for the trail of its
// goroutine, a later one loses its trail.
func (t *trails) end(o *pairing.Operation) {
	at := threadOf(o)
	one := t.all[at]
	if one == nil {
		return
	}
	if one.open--; one.open == 0 {
		delete(t.all, at)
		t.free = append(t.free, one)
	}
}

// add adds an event, if its goroutine has an open operation.
func (t *trails) add(e *recording.Event) {
	if one := t.all[thread{e.PID, e.TID, e.Goroutine}]; one != nil {
		one.add(e)
	}
}
