package events

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/paired"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Event is an event of any source.
type Event struct {
	*recording.Event
	// File is the recording of the process, or a stand-in for it.
	File *replay.File
	// Call is the data that Options.Calls asks for.
	Call *Call
	// Shown describes the arguments, if Options.Show is set. It is the same for all events of a
	// probe.
	Shown *render.Probe
	// Stack is the stack from which the event was fired, if Options.Stacks is set.
	Stack *render.Stack
	// Thread is the name of the thread, or nil if the source does not know it.
	Thread []byte

	comm []byte // the name that Comm returned last
}

// At returns the time of day of an event.
func At(e *recording.Event) time.Time { return time.Unix(0, e.Realtime) }

// Comm returns the name of the thread that fired the event, the name of its program if that is
// unknown, or "". It is valid until the next call.
func (e *Event) Comm() []byte {
	if e.Thread != nil {
		return e.Thread
	}
	name := ""
	if p := e.File.Process; p != nil {
		name = p.Comm
	}
	if name == "" {
		name = evaluate.Executable(e.Event)
	}
	e.comm = append(e.comm[:0], name...)
	return e.comm
}

// Show selects the arguments that events have.
type Show struct {
	// Exprs are expressions whose values replace the arguments, if there are any.
	Exprs []string
	// TextSize is the number of bytes of a string that are kept.
	TextSize int
	// Verbose adds the fields of structs that arguments point to. Only the kernel reads them.
	Verbose bool
}

// shown makes the events of a probe that are shown.
type shown struct {
	render.Probe
	exprs []*expr.Expr        // nil for the arguments
	eval  *evaluate.Evaluator // of exprs
	probe recording.Probe     // a probe whose arguments are the values of exprs
	event recording.Event     // an event of it
}

// of returns the shown form of the events of a probe.
func (s *Show) of(p *recording.Probe) *shown {
	all := &shown{eval: evaluate.NewEvaluator(p)}
	all.probe = recording.Probe{Provider: p.Provider, Name: p.Name}
	for _, src := range s.Exprs {
		e, item, err := all.eval.Item(src)
		if err != nil {
			return &shown{} // the source leaves the probe out
		}
		item.TextSize = s.TextSize
		all.exprs = append(all.exprs, e)
		all.Items = append(all.Items, *item)
		all.probe.Args = append(all.probe.Args, item.Arg())
	}
	if all.exprs == nil {
		all.Items = evaluate.ArgItems(p, s.TextSize)
	}
	return all
}

// take returns an event as it is shown.
func (s *shown) take(e *recording.Event) *recording.Event {
	if s.exprs == nil {
		return e
	}
	s.eval.At(e)
	made := &s.event
	made.Reset(&s.probe, e)
	for i, src := range s.exprs {
		v, fault := s.eval.Eval(src)
		if fault {
			made.Unreadable |= 1 << i
		}
		if t := s.Items[i].Type; t.Kind != expr.String {
			made.Set(i, evaluate.Bits(t, v))
			continue
		}
		made.SetText(i, []byte(v.Text()))
		if s.eval.IsCut(src) {
			made.Cut |= 1 << i
		}
	}
	return made
}

// Delivery passes events that were recorded or sent to a consumer, as Show asks for them.
type Delivery struct {
	Consumer
	Show *Show
	// Ends completes ends with values of their starts, or is nil.
	Ends  *paired.Ends
	known map[*recording.Probe]*shown
	last  *recording.Probe // the probe of the event before
	shown *shown           // of its events
	event Event
}

func (d *Delivery) Event(e *recording.Event, f *replay.File) error {
	if d.Ends != nil {
		if e = d.Ends.Take(e, f); e == nil {
			return nil
		}
	}
	d.event.Event, d.event.File = e, f
	if d.Show != nil {
		if d.last != e.Probe {
			d.know(e.Probe)
		}
		d.event.Event = d.shown.take(e)
	}
	return d.Consumer.Event(&d.event)
}

// know prepares for events of a probe.
func (d *Delivery) know(p *recording.Probe) {
	s := d.known[p]
	if s == nil {
		s = d.Show.of(p)
		if d.known == nil {
			d.known = map[*recording.Probe]*shown{}
		}
		d.known[p] = s
	}
	d.event.Shown, d.last, d.shown = &s.Probe, p, s
}

func (d *Delivery) Gone(f *replay.File) {
	for _, p := range f.Recorded() {
		delete(d.known, p)
	}
	if d.Ends != nil {
		d.Ends.Gone(f)
	}
	d.Consumer.Gone(f)
}
