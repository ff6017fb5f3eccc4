package events

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/event"
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

	kernel *event.Event // the event as the kernel delivered it, or nil
	shown  *Shown       // the values that Options.Show asks for
	value  event.Value  // the value that Value returned last
	comm   []byte       // the name that Comm returned last
}

// At returns the time of day of an event.
func At(e *recording.Event) time.Time { return time.Unix(0, e.Realtime) }

// Comm returns the name of the thread that fired the event, the name of its program if that is
// unknown, or "". It is valid until the next call.
func (e *Event) Comm() []byte {
	if e.kernel != nil {
		return e.kernel.Comm()
	}
	name := ""
	if p := e.File.Process; p != nil {
		name = p.Comm
	}
	if name == "" {
		name = replay.Executable(e.Event)
	}
	e.comm = append(e.comm[:0], name...)
	return e.comm
}

// FromKernel sets the process, and what the kernel has delivered, for an event of a probe with
// these values.
func (e *Event) FromKernel(f *replay.File, k *event.Event, s *Shown) {
	e.File, e.kernel, e.shown = f, k, s
}

// Shown describes the values that Options.Show asks for. It is the same for all events of a probe.
func (e *Event) Shown() *render.Probe { return &e.shown.Probe }

// Value returns the i-th value. It implements render.Values.
func (e *Event) Value(i int) *event.Value {
	if e.kernel != nil {
		e.value = e.kernel.Value(e.shown.All, i)
	} else {
		e.shown.value(&e.value, e.Event, i)
	}
	return &e.value
}

// Show selects the values of an event.
type Show struct {
	// Exprs are expressions whose values replace the arguments, if there are any.
	Exprs []string
	// TextSize is the number of bytes of a string that are kept.
	TextSize int
	// Verbose adds the fields of structs that arguments point to. Only the kernel reads them.
	Verbose bool
}

// Shown holds the values to show for the events of a probe.
type Shown struct {
	render.Probe
	// All are all items in the kernel's records.
	All   []event.Item
	exprs []*expr.Expr      // nil for the arguments
	eval  *replay.Evaluator // of exprs
}

// NewShown returns the first own values of the kernel's events of a probe with these items.
func NewShown(p *recording.Probe, all []event.Item, own int) *Shown {
	shown := render.Probe{Provider: p.Provider, Probe: p.Name, Items: all[:own]}
	return &Shown{Probe: shown, All: all}
}

// of returns the values to show for a probe whose events the kernel does not deliver.
func (s *Show) of(p *recording.Probe) *Shown {
	all := NewShown(p, nil, 0)
	all.eval = replay.NewEvaluator(p)
	for _, src := range s.Exprs {
		e, item, err := all.eval.Item(src)
		if err != nil {
			return NewShown(p, nil, 0) // the source leaves the probe out
		}
		item.TextSize = s.TextSize
		all.exprs = append(all.exprs, e)
		all.Items = append(all.Items, *item)
	}
	if all.exprs == nil {
		all.Items = replay.ArgItems(p, s.TextSize)
	}
	return all
}

// value sets v to the i-th value of an event.
func (s *Shown) value(v *event.Value, e *recording.Event, i int) {
	item := &s.Items[i]
	*v = event.Value{Type: item.Type}
	var one expr.Value
	switch {
	case s.exprs != nil:
		s.eval.At(e)
		if one, v.Missing = s.eval.Eval(s.exprs[i]); v.Missing {
			return
		}
	case v.Type.Kind != expr.String:
		one = expr.WordValue(v.Type.Kind, e.Word(i))
	}
	if v.Type.Kind != expr.String {
		v.Bits = replay.Bits(v.Type, one)
		return
	}
	if v.Bits = 1; s.exprs != nil {
		v.Text, v.Cut = []byte(one.Text()), s.eval.IsCut(s.exprs[i])
	} else {
		v.Text, v.Cut = e.Text(i), e.Cut>>i&1 != 0
	}
	if len(v.Text) > item.TextSize {
		v.Text, v.Cut = event.WholeRunes(v.Text[:item.TextSize]), true
	}
}

// Delivery passes events that were recorded or sent to a consumer, with the values that Show asks
// for.
type Delivery struct {
	Consumer
	Show  *Show
	known map[*recording.Probe]*Shown
	last  *recording.Probe // the probe of the event before, whose values event has
	event Event
}

func (d *Delivery) Event(e *recording.Event, f *replay.File) error {
	d.event.Event, d.event.File = e, f
	if d.Show != nil && d.last != e.Probe {
		s := d.known[e.Probe]
		if s == nil {
			s = d.Show.of(e.Probe)
			if d.known == nil {
				d.known = map[*recording.Probe]*Shown{}
			}
			d.known[e.Probe] = s
		}
		d.event.shown, d.last = s, e.Probe
	}
	return d.Consumer.Event(&d.event)
}

func (d *Delivery) Gone(f *replay.File) {
	for _, p := range f.Recorded() {
		delete(d.known, p)
	}
	d.Consumer.Gone(f)
}
