package tree

import (
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

type goroutine = pairing.Goroutine[*replay.File]

// calls builds trees of function calls: the parent of a call is the last call that its goroutine
// has begun and that has not ended.
type calls struct {
	open   pairing.Calls[*replay.File, *node] // a call for which its tree had no room has no node
	values evaluate.Arguments
	ids    uint64
	growth // its size includes the open calls
	// unwound and foreign count calls that are not shown.
	unwound, foreign uint64
}

func newCalls(finished func(*tree, pairing.Ended) error) *calls {
	return &calls{values: evaluate.Arguments{}, growth: growth{finished: finished}}
}

// add adds an event.
func (c *calls) add(event *events.Event) error {
	e, call := event.Event, event.Call
	if call.G == 0 {
		c.foreign++
		return nil
	}
	at := goroutine{Process: event.File, G: call.G}
	name := e.Probe.Provider + ":" + strings.TrimSuffix(e.Probe.Name, spec.ReturnSuffix)
	if !call.Return {
		c.start(at, name, e, call)
		return nil
	}
	c.unwind(at, call.Depth+1, e)
	if n, ok := c.open.End(at, name, call.Depth); ok {
		return c.end(n, e, call)
	}
	return nil
}

// unwind ends the calls of a goroutine at a depth or deeper, and returns the open ones.
func (c *calls) unwind(at goroutine, depth uint64, e *recording.Event) []pairing.Call[*node] {
	open, ended := c.open.Unwind(at, e.Goroutine, depth)
	for _, call := range ended {
		if n := call.Kept; n != nil {
			n.unwound, n.took = true, e.Monotonic-n.since
		}
	}
	c.size -= len(ended)
	if len(ended) > 0 && len(open) == 0 {
		c.unwound++
		c.remove(ended[0].Kept.tree)
	}
	return open
}

// start adds a call as a part of the innermost one of its goroutine that is in the tree, or as the
// root of a tree.
func (c *calls) start(at goroutine, name string, e *recording.Event, call *events.Call) {
	open := c.unwind(at, call.Depth, e)
	c.ids++
	n := &node{
		name: name, id: c.ids, at: events.At(e), since: e.Monotonic, process: at.Process,
		pid: e.PID, tid: e.TID, goroutine: e.Goroutine, args: c.values.Of(e),
	}
	if len(open) == 0 {
		n.tree = &tree{
			root: n, lost: c.lost, calls: at, meets: events.True, where: slices.Clone(call.Where),
		}
		n.tree.place = c.trees.PushBack(n.tree)
		for _, truth := range call.Where {
			if n.tree.meets != events.False && truth != events.True {
				n.tree.meets = truth
			}
		}
	} else {
		n.tree = open[0].Kept.tree
	}
	began := pairing.Call[*node]{Name: name, Depth: call.Depth}
	if n.tree.nodes >= maxPerTree {
		n.tree.dropped++
	} else {
		began.Kept = n
		n.tree.nodes++
		c.size++
		for i := len(open) - 1; i >= 0; i-- {
			if parent := open[i].Kept; parent != nil {
				n.parent = parent.id
				parent.children = append(parent.children, n)
				break
			}
		}
	}
	c.open.Begin(at, e.Goroutine, began)
	if c.size++; c.size > maxNodes {
		c.givenUp++
		c.remove(c.trees.Front().Value.(*tree))
	}
}

// end ends a call, and its tree if the call is the outermost. n is nil if the tree had no room.
func (c *calls) end(n *node, e *recording.Event, call *events.Call) error {
	if c.size--; n == nil {
		return nil
	}
	t := n.tree
	n.ended, n.took, n.failed = true, e.Monotonic-n.since, call.Failed
	n.result = c.values.Of(e)
	if t.failed = t.failed || n.failed; n != t.root {
		return nil
	}
	selected := true
	for i, truth := range t.where {
		if call.Where[i] != events.Absent {
			truth = call.Where[i]
		}
		selected = selected && truth == events.True
	}
	c.remove(t)
	c.dropped += uint64(t.dropped)
	return c.finished(t, pairing.Ended{Selected: selected})
}

// remove removes a tree from the unfinished ones, with its open calls.
func (c *calls) remove(t *tree) {
	_, ended := c.open.Unwind(t.calls, 0, 0)
	c.trees.Remove(t.place)
	c.size -= len(ended) + t.nodes
}

// gone removes the calls of a process that has ended.
func (c *calls) gone(file *replay.File) {
	for _, t := range c.of(file) {
		c.remove(t)
	}
}

func (c *calls) know(*recording.Probe) {}

// report prints which calls are not shown.
func (c *calls) report(to *console.Console) {
	if n := c.open.Strays; n > 0 {
		to.Warn("not included: %s whose calls began earlier, or were lost", render.Number(n, "return"))
	}
	if c.unwound > 0 {
		to.Warn("not included: %s whose root has ended by a panic or by Goexit, or whose return was lost", render.Number(c.unwound, "tree"))
	}
	if c.foreign > 0 {
		to.Warn("not included: %s on stacks that are not a goroutine's", render.Number(c.foreign, "event"))
	}
}
