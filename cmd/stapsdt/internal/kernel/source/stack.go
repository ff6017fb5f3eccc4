//go:build linux

package source

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/symbol"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/run"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/stacks"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
)

// eventStacks finds the stacks of events.
type eventStacks struct {
	*stacks.Stacks
	known map[*symbol.Stack]*render.Stack
}

// maxStacks bounds the stacks that are kept, of processes that may have ended.
const maxStacks = 1 << 15

func newEventStacks(r *run.Run, show *events.Show) *eventStacks {
	verbose := show != nil && show.Verbose
	return &eventStacks{
		stacks.New(r.Table, r.Env.Debug, verbose), map[*symbol.Stack]*render.Stack{},
	}
}

// of returns the stack of an event.
func (s *eventStacks) of(e *layout.Event, from *tracedProbe) *render.Stack {
	if e.Value(from.items, from.stack).Missing {
		return &render.Stack{Lines: []string{"[cut: too many different stacks]"}}
	}
	process := int(e.Value(from.items, from.stack).Bits)
	id := layout.StackID(e.Second(from.items, from.stack))
	found := s.Of(process, from.probe.Name, id)
	known := s.known[found]
	if known != nil {
		return known
	}
	if len(s.known) == maxStacks {
		clear(s.known)
		s.Forget()
	}
	known = &render.Stack{Lines: found.Lines()}
	s.known[found] = known
	return known
}
