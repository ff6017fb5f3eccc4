package events

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
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
	values func(i int) event.Value
}

// At returns the time of day of an event.
func At(e *recording.Event) time.Time { return time.Unix(0, e.Realtime) }

// Comm returns the name of the thread that fired the event, the name of its program if that is unknown, or "".
func (e *Event) Comm() []byte {
	switch p := e.File.Process; {
	case e.kernel != nil:
		return e.kernel.Comm()
	case p != nil && p.Comm != "":
		return []byte(p.Comm)
	}
	return []byte(replay.Executable(e.Event))
}

// FromKernel sets the process, and what the kernel has delivered, for an event of a probe with
// these values.
func (e *Event) FromKernel(f *replay.File, k *event.Event, s *Shown) {
	e.File, e.kernel, e.shown = f, k, s
}

// Items describes the values that Options.Show asks for. It is the same for all events of a probe.
func (e *Event) Items() []event.Item { return e.shown.items }

// Value returns the i-th value.
func (e *Event) Value(i int) event.Value {
	if e.kernel != nil {
		return e.kernel.Value(e.shown.All, i)
	}
	return e.shown.value(e.Event, i)
}

// Values returns Value as a function. A source delivers all events in one Event, so this allocates once.
func (e *Event) Values() func(i int) event.Value {
	if e.values == nil {
		e.values = e.Value
	}
	return e.values
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
	// All are all items in the kernel's records.
	All   []event.Item
	items []event.Item
	exprs []*expr.Expr      // nil for the arguments
	eval  *replay.Evaluator // of exprs
}

// NewShown returns the first own values of the kernel's events with these items.
func NewShown(all []event.Item, own int) *Shown { return &Shown{All: all, items: all[:own]} }

// of returns the values to show for a probe whose events the kernel does not deliver.
func (s *Show) of(p *recording.Probe) *Shown {
	all := &Shown{eval: replay.NewEvaluator(p)}
	for _, src := range s.Exprs {
		e, item, err := all.eval.Item(src)
		if err != nil {
			return &Shown{} // the source leaves the probe out
		}
		item.TextSize = s.TextSize
		all.exprs = append(all.exprs, e)
		all.items = append(all.items, *item)
	}
	if all.exprs == nil {
		all.items = replay.ArgItems(p, s.TextSize)
	}
	return all
}

// value returns the i-th value of an event.
func (s *Shown) value(e *recording.Event, i int) event.Value {
	v := event.Value{Type: s.items[i].Type}
	var one expr.Value
	switch {
	case s.exprs != nil:
		s.eval.At(e)
		if one, v.Missing = s.eval.Eval(s.exprs[i]); v.Missing {
			return v
		}
		v.Text, v.Cut = []byte(one.Text()), s.eval.IsCut(s.exprs[i])
	case e.Probe.Args[i].Kind == kind.String:
		v.Text, v.Cut = e.Text(i), e.Cut>>i&1 != 0
	default:
		one = replay.Variable(e, i)
	}
	if v.Type.Kind != expr.String {
		v.Bits, v.Text = replay.Bits(v.Type, one), nil
		return v
	}
	if v.Bits = 1; len(v.Text) > s.items[i].TextSize {
		v.Text, v.Cut = event.WholeRunes(v.Text[:s.items[i].TextSize]), true
	}
	return v
}

// Delivery passes events that were recorded or sent to a consumer, with the values that Show asks
// for.
type Delivery struct {
	Consumer
	Show  *Show
	known map[*recording.Probe]*Shown
	event Event
}

func (d *Delivery) Event(e *recording.Event, f *replay.File) error {
	d.event.Event, d.event.File = e, f
	if d.Show != nil {
		s := d.known[e.Probe]
		if s == nil {
			s = d.Show.of(e.Probe)
			if d.known == nil {
				d.known = map[*recording.Probe]*Shown{}
			}
			d.known[e.Probe] = s
		}
		d.event.shown = s
	}
	return d.Consumer.Event(&d.event)
}

func (d *Delivery) Gone(f *replay.File) {
	for _, p := range f.Recorded() {
		delete(d.known, p)
	}
	d.Consumer.Gone(f)
}
