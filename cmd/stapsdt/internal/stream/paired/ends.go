package paired

import (
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Ends completes the ends among the events of a reader, and evaluates the condition for them.
type Ends struct {
	reader     *replay.Reader
	operations pairing.Operations
	sides      map[*recording.Probe]*side
	missing    uint64             // events that are missing before the next one
	event      recording.Event    // the completed one
	free       []*recording.Event // kept events of operations that have ended
}

// side is a probe whose events are paired.
type side struct {
	filter *replay.Filter
	// Of a start: kept is a probe with the arguments that ends need, or nil if they need none. from
	// are their indexes.
	kept *recording.Probe
	from []int
	// Of an end: values are the indexes of its further arguments in the events of the probe of, or
	// -1. took is the index of elapsed, or -1.
	values []int
	of     *recording.Probe
	took   int
}

// New returns the Ends for the events of a reader, or nil if it has no Pairing.
func New(r *replay.Reader) *Ends {
	if r.Pairing == nil {
		return nil
	}
	return &Ends{
		reader: r, operations: pairing.Operations{Bare: true}, sides: map[*recording.Probe]*side{},
	}
}

// Take returns the event that a consumer gets in place of one that the reader has delivered, or nil
// if it gets none. It is valid until the next call.
func (x *Ends) Take(e *recording.Event, f *replay.File) *recording.Event {
	if !x.reader.Pairs() {
		return e
	}
	s, known := x.sides[e.Probe]
	if !known {
		s = x.know(e.Probe)
	}
	got := e
	if s != nil {
		got = x.pair(s, e, f)
	}
	if got == nil {
		x.missing += e.Missing
		return nil
	}
	got.Missing += x.missing
	x.missing = 0
	return got
}

// pair is Take for an event that is paired.
func (x *Ends) pair(s *side, e *recording.Event, f *replay.File) *recording.Event {
	out, begun := x.operations.Add(e, f), x.reader.Begun(e)
	x.release(out.Replaced)
	switch {
	case out.Started != nil && s.kept != nil:
		out.Started.Note = x.keep(s, e)
	case out.HasEnded:
		defer x.release(out.Ended.Start)
	case out.Stray && !begun:
		x.operations.Early++
	}
	if !begun || !s.filter.Selected {
		return nil
	}
	if s.filter.Probe != e.Probe {
		if !out.HasEnded {
			return nil
		}
		e = x.complete(s, e, &out.Ended)
	}
	if !s.filter.Matches(e) {
		return nil
	}
	return e
}

// release lets the kept event of an operation be used again. The operation may be nil.
func (x *Ends) release(o *pairing.Operation) {
	if o == nil {
		return
	}
	if kept, ok := o.Note.(*recording.Event); ok {
		x.free = append(x.free, kept)
	}
	o.Reuse()
}

// keep returns what ends need of a start. Texts are cut to the number of bytes that is shown.
func (x *Ends) keep(s *side, e *recording.Event) *recording.Event {
	var kept *recording.Event
	if n := len(x.free) - 1; n >= 0 {
		kept, x.free = x.free[n], x.free[:n]
	} else {
		kept = &recording.Event{}
	}
	kept.Reset(s.kept, e)
	for i, at := range s.from {
		kept.Unreadable |= e.Unreadable >> at & 1 << i
		kept.Cut |= e.Cut >> at & 1 << i
		if s.kept.Args[i].Kind != kind.String {
			kept.Set(i, e.Integer(at))
			continue
		}
		text, cut := value.Cut(e.Text(at), evaluate.TextSize)
		kept.SetText(i, text)
		if cut {
			kept.Cut |= 1 << i
		}
	}
	return kept
}

// complete returns an end with the values of its start.
func (x *Ends) complete(s *side, e *recording.Event, ended *pairing.Ended) *recording.Event {
	x.event.Extend(s.filter.Probe, e)
	own := len(e.Probe.Args)
	if s.took >= 0 {
		x.event.Set(s.took, uint64(ended.Took))
		own++
	}
	kept, _ := ended.Start.Note.(*recording.Event)
	if kept == nil {
		return &x.event
	}
	if s.of != kept.Probe {
		s.find(kept.Probe, own)
	}
	for i, at := range s.values {
		to := own + i
		switch isText := s.filter.Probe.Args[to].Kind == kind.String; {
		case at < 0 && isText:
			x.event.SetText(to, nil)
			x.event.Unreadable |= 1 << to
		case at < 0:
			x.event.Unreadable |= 1 << to
		case isText:
			x.event.SetText(to, kept.Text(at))
		default:
			x.event.Set(to, kept.Integer(at))
		}
		if at >= 0 {
			x.event.Unreadable |= kept.Unreadable >> at & 1 << to
			x.event.Cut |= kept.Cut >> at & 1 << to
		}
	}
	return &x.event
}

// find finds the arguments of an end, from the index first on, in the events of a start. A program
// can have starts of several types.
func (s *side) find(kept *recording.Probe, first int) {
	s.of, s.values = kept, s.values[:0]
	for _, a := range s.filter.Probe.Args[first:] {
		name := strings.TrimPrefix(a.Name, query.StartPrefix)
		s.values = append(s.values, slices.IndexFunc(kept.Args, func(other recording.Arg) bool {
			return other.Name == name && other.Type == a.Type && other.Kind == a.Kind
		}))
	}
}

// know returns the side that a probe is, or nil if its events are not paired.
func (x *Ends) know(p *recording.Probe) *side {
	filter := x.reader.Paired(p)
	if filter == nil {
		x.sides[p] = nil
		return nil
	}
	for _, side := range append(slices.Clip(filter.Sides), p) {
		x.operations.Know(side)
	}
	s := &side{filter: filter, took: -1}
	x.sides[p] = s
	if n := len(p.Args); filter.Probe != p && filter.Probe.Args[n].Name == query.ElapsedName {
		s.took = n
	}
	for i, a := range p.Args {
		needed := func(end *recording.Probe) bool { return needs(end, a.Name) }
		if slices.ContainsFunc(filter.Ends, needed) {
			if s.kept == nil {
				s.kept = &recording.Probe{}
			}
			s.kept.Args, s.from = append(s.kept.Args, a), append(s.from, i)
		}
	}
	return s
}

// needs reports whether a completed end has an argument of its start.
func needs(end *recording.Probe, name string) bool {
	return slices.ContainsFunc(end.Args[len(end.Args)-end.Hidden:], func(a recording.Arg) bool {
		return strings.TrimPrefix(a.Name, query.StartPrefix) == name
	})
}

// Gone is called after a process has ended and its events were delivered.
func (x *Ends) Gone(f *replay.File) {
	x.operations.Gone(f)
	if f.Process != nil {
		x.operations.Forget(f.Process.Probes)
	}
	for _, p := range f.Recorded() {
		delete(x.sides, p)
	}
}

// Report warns of operations that are not included. x may be nil.
func (x *Ends) Report(to *console.Console) {
	if x != nil {
		x.operations.Report(to)
	}
}
