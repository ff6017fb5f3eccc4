//go:build linux

package source

import (
	"fmt"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// tracedProbe is a probe whose events the kernel delivers.
type tracedProbe struct {
	probe     *recording.Probe // with the arguments that events have
	known     *recording.Probe // without the capacities among them
	shown     render.Probe
	items     []value.Item // all values in a record, the arguments first
	goroutine int          // the index of the item with the event's goroutine, or -1
	cgroup    int          // the index of the item with the control group, or -1
	stack     int          // the index of the item with the stack
	calls     callItems
}

// newTracedProbe returns a probe whose events have the values of items as arguments.
func newTracedProbe(p *bpf.Probe, items []value.Item) *tracedProbe {
	s := &tracedProbe{
		probe: &recording.Probe{Provider: p.Provider, Name: p.Name}, items: items,
		goroutine: -1, cgroup: -1,
	}
	for _, item := range items {
		arg := item.Arg()
		if arg.Bare {
			item.Type, item.Bare, item.Details = expr.Type{Kind: expr.String}, true, nil
		}
		item.TextSize = 0 // the kernel has cut it
		s.probe.Args, s.shown.Items = append(s.probe.Args, arg), append(s.shown.Items, item)
	}
	s.known = s.probe
	if n := p.Shows(); len(items) > n {
		s.known = &recording.Probe{Provider: p.Provider, Name: p.Name, Args: s.probe.Args[:n]}
	}
	return s
}

// setArguments sets the arguments of an event to the values in a record. It returns the number of
// those that could not be read. Null is read.
func (s *tracedProbe) setArguments(to *recording.Event, e *layout.Event) (unreadable uint64) {
	missing := e.Missing()
	for i := range s.probe.Args {
		item := &s.items[i]
		switch {
		case missing>>i&1 != 0 || item.Unreadable != nil:
			if !s.setReason(to, i, e) {
				unreadable++
			}
		case s.probe.Args[i].Kind != kind.String:
			to.Set(i, e.Word(item))
		case item.Type.Kind == expr.String:
			text, cut := e.Text(item)
			if to.SetText(i, text); cut {
				to.Cut |= 1 << i
			}
		case item.Names != nil:
			v := e.Value(s.items, i)
			to.SetText(i, []byte(item.NameOf(&v)))
		default: // a struct
			to.SetText(i, e.Part(item))
		}
	}
	return unreadable
}

// setReason sets the i-th argument, whose value the record does not have, to the reason. It reports
// whether the value was read nevertheless, or is not expected.
func (s *tracedProbe) setReason(to *recording.Event, i int, e *layout.Event) (read bool) {
	item, text := &s.items[i], "<unreadable>"
	to.Unreadable |= 1 << i
	switch isText := item.Type.Kind == expr.String; {
	case item.Unreadable != nil:
		text, read = "<unavailable>", true // this is reported elsewhere
	case isText && e.Word(item) == 0 && !item.IsGo:
		text, read = "", true // null
	case isText:
		text = fmt.Sprintf("<unreadable %#x>", e.Word(item))
	}
	if s.probe.Args[i].Kind == kind.String {
		to.SetText(i, []byte(text))
	}
	return read
}
