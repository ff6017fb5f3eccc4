package tree

import (
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// calls builds trees of function calls: the parent of a call is the last call that its goroutine has begun and
// that has not ended.
type calls struct {
	goroutines map[goroutine]*callStack
	values     replay.Arguments
	ids        uint64
	growth     // its size includes the frames
	// unwound, strays and foreign count calls that are not shown.
	unwound, strays, foreign uint64
}

// goroutine identifies a goroutine by the address of its g, which another goroutine can have later.
type goroutine struct {
	file *replay.File
	g    uint64
}

// callStack holds the open calls of a goroutine, the outermost first. There is at least one.
type callStack struct {
	of     goroutine
	id     uint64 // ID of the goroutine, or 0
	tree   *tree
	frames []frame
}

// frame is an open call.
type frame struct {
	name  string
	depth uint64
	node  *node // nil if the tree had no room for it
	where []events.Truth
}

func newCalls(finished func(*tree, replay.Ended) error) *calls {
	return &calls{
		goroutines: map[goroutine]*callStack{}, values: replay.Arguments{},
		growth: growth{finished: finished},
	}
}

// add adds an event. A call at a depth, or a return, means that all deeper calls have ended: calls whose return
// was not seen were ended by a panic or Goexit.
func (c *calls) add(event *events.Event) error {
	e, call := event.Event, event.Call
	if call.G == 0 {
		c.foreign++
		return nil
	}
	at := goroutine{event.File, call.G}
	s := c.goroutines[at]
	if s != nil && s.id != e.Goroutine { // another goroutine uses this g now
		c.unwind(s, 0, e.Monotonic)
		s = nil
	}
	name := e.Probe.Provider + ":" + strings.TrimSuffix(e.Probe.Name, spec.ReturnSuffix)
	if !call.Return {
		if s != nil && !c.unwind(s, call.Depth, e.Monotonic) {
			s = nil
		}
		c.start(s, at, frame{name: name, depth: call.Depth}, e, call)
		return nil
	}
	if s != nil && !c.unwind(s, call.Depth+1, e.Monotonic) {
		s = nil
	}
	if s == nil {
		c.strays++
		return nil
	}
	last := &s.frames[len(s.frames)-1]
	if last.depth != call.Depth || last.name != name {
		c.strays++
		return nil
	}
	return c.end(s, last, e, call)
}

// unwind removes the calls of a goroutine at a depth or deeper, and reports whether a call is left.
func (c *calls) unwind(s *callStack, depth uint64, now time.Duration) bool {
	for len(s.frames) > 0 && s.frames[len(s.frames)-1].depth >= depth {
		if n := s.frames[len(s.frames)-1].node; n != nil {
			n.unwound, n.took = true, now-n.since
		}
		s.frames = s.frames[:len(s.frames)-1]
		c.size--
	}
	if len(s.frames) > 0 {
		return true
	}
	c.unwound++
	c.remove(s)
	return false
}

// start adds a call to the stack of its goroutine, or as the root of a tree if s is nil.
func (c *calls) start(s *callStack, at goroutine, f frame, e *recording.Event, call *events.Call) {
	c.ids++
	n := &node{
		name: f.name, id: c.ids, at: events.At(e), since: e.Monotonic, process: at.file, pid: e.PID, tid: e.TID, goroutine: e.Goroutine,
		args: c.values.Of(e),
	}
	if s == nil {
		s = &callStack{of: at, id: e.Goroutine, tree: &tree{root: n, lost: c.lost}}
		s.tree.calls, s.tree.place = s, c.trees.PushBack(s.tree)
		c.goroutines[at] = s
		f.where = append(f.where, call.Where...)
		s.tree.meets = events.True
		for _, truth := range f.where {
			if s.tree.meets != events.False && truth != events.True {
				s.tree.meets = truth
			}
		}
	}
	n.tree = s.tree
	switch parent := s.parent(); {
	case s.tree.nodes >= maxPerTree:
		s.tree.dropped++
	default:
		f.node = n
		s.tree.nodes++
		c.size++
		if parent != nil {
			n.parent = parent.id
			parent.children = append(parent.children, n)
		}
	}
	s.frames = append(s.frames, f)
	if c.size++; c.size > maxNodes {
		c.givenUp++
		c.remove(c.trees.Front().Value.(*tree).calls)
	}
}

// parent returns the innermost call that is in the tree, or nil.
func (s *callStack) parent() *node {
	for i := len(s.frames) - 1; i >= 0; i-- {
		if n := s.frames[i].node; n != nil {
			return n
		}
	}
	return nil
}

// end ends the innermost call of a goroutine, and its tree if the call is the outermost.
func (c *calls) end(s *callStack, f *frame, e *recording.Event, call *events.Call) error {
	if n := f.node; n != nil {
		n.ended, n.took, n.failed = true, e.Monotonic-n.since, call.Failed
		n.result = c.values.Of(e)
		s.tree.failed = s.tree.failed || n.failed
	}
	selected := true
	for i, truth := range f.where {
		if call.Where[i] != events.Absent {
			truth = call.Where[i]
		}
		selected = selected && truth == events.True
	}
	s.frames = s.frames[:len(s.frames)-1]
	c.size--
	if len(s.frames) > 0 {
		return nil
	}
	c.remove(s)
	c.dropped += uint64(s.tree.dropped)
	return c.finished(s.tree, replay.Ended{Selected: selected})
}

// remove removes the calls of a goroutine, and their tree from the unfinished ones.
func (c *calls) remove(s *callStack) {
	c.trees.Remove(s.tree.place)
	c.size -= len(s.frames) + s.tree.nodes
	s.frames = nil
	delete(c.goroutines, s.of)
}

// gone removes the calls of a process that has ended.
func (c *calls) gone(file *replay.File) {
	for at, s := range c.goroutines {
		if at.file == file {
			c.remove(s)
		}
	}
}

func (c *calls) know(*recording.Probe) {}

// report prints which calls are not shown.
func (c *calls) report(to *console.Console) {
	if c.strays > 0 {
		to.Warn("not included: %s whose calls began earlier, or were lost", render.Number(c.strays, "return"))
	}
	if c.unwound > 0 {
		to.Warn("not included: %s whose root has ended by a panic or by Goexit, or whose return was lost", render.Number(c.unwound, "tree"))
	}
	if c.foreign > 0 {
		to.Warn("not included: %s on stacks that are not a goroutine's", render.Number(c.foreign, "event"))
	}
}
