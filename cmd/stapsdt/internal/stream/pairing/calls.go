package pairing

import (
	"maps"
	"slices"
)

// Calls holds the open calls of functions. They are paired with their returns by their goroutine
// and the depth of its stack. A P identifies a process, and a C is the data that are kept for a
// call.
type Calls[P comparable, C any] struct {
	// Strays counts the returns whose calls are not open.
	Strays uint64
	stacks map[Goroutine[P]]*stack[C]
}

// Goroutine identifies a goroutine by the address of its g, which another goroutine can have later.
type Goroutine[P comparable] struct {
	Process P
	G       uint64
}

// Call is an open call.
type Call[C any] struct {
	Name  string
	Depth uint64
	Kept  C
}

// stack holds the open calls of a goroutine, the outermost first. There is at least one.
type stack[C any] struct {
	id   uint64 // ID of the goroutine, or 0
	open []Call[C]
}

// Unwind ends the calls at a depth or deeper before the goroutine with an ID makes a call at that
// depth, or returns to it: a panic or Goexit has ended those whose return was not seen. If another
// goroutine had the same g, all of its calls have ended. Unwind returns the open and the ended
// calls, the outermost first. They are valid until the next use of the goroutine.
func (c *Calls[P, C]) Unwind(at Goroutine[P], id, depth uint64) (open, ended []Call[C]) {
	s := c.stacks[at]
	if s == nil {
		return nil, nil
	}
	n := len(s.open)
	for n > 0 && (s.open[n-1].Depth >= depth || s.id != id) {
		n--
	}
	return c.cut(at, s, n)
}

// cut leaves n calls on a stack, and removes it if none is left.
func (c *Calls[P, C]) cut(at Goroutine[P], s *stack[C], n int) (open, ended []Call[C]) {
	if open, ended = s.open[:n], s.open[n:]; n == 0 {
		delete(c.stacks, at)
	}
	s.open = open
	return open, ended
}

// Begin adds a call, which is the innermost one of its goroutine.
func (c *Calls[P, C]) Begin(at Goroutine[P], id uint64, call Call[C]) {
	if c.stacks == nil {
		c.stacks = map[Goroutine[P]]*stack[C]{}
	}
	s := c.stacks[at]
	if s == nil {
		s = &stack[C]{id: id}
		c.stacks[at] = s
	}
	s.open = append(s.open, call)
}

// End ends the innermost call of a goroutine, unless the return is of another one, which was not
// seen.
func (c *Calls[P, C]) End(at Goroutine[P], name string, depth uint64) (kept C, ok bool) {
	if s := c.stacks[at]; s != nil {
		last := len(s.open) - 1
		if call := s.open[last]; call.Name == name && call.Depth == depth {
			c.cut(at, s, last)
			return call.Kept, true
		}
	}
	c.Strays++
	return kept, false
}

// EndAll ends the calls that ends selects.
func (c *Calls[P, C]) EndAll(ends func(Goroutine[P], Call[C]) bool) {
	maps.DeleteFunc(c.stacks, func(at Goroutine[P], s *stack[C]) bool {
		s.open = slices.DeleteFunc(s.open, func(call Call[C]) bool { return ends(at, call) })
		return len(s.open) == 0
	})
}
