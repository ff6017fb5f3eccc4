//go:build linux

package function

import "slices"

// flow is the order in which the instructions of a function can be executed.
type flow struct {
	offsets []uint64 // of the instructions
	steps   []step
	sources map[int][]int // the instructions that jump to one
	work    *int          // what may still be done
	all     []int         // the indexes of all instructions, or nil
	before  [][]int       // the instructions after which one can be executed, or nil
}

// at returns the instruction at an offset. ok is false if there is none.
func (f *flow) at(offset uint64) (i int, ok bool) { return slices.BinarySearch(f.offsets, offset) }

// entry is the first instruction of a function.
var entry = []int{0}

// step is an instruction.
type step struct {
	next bool  // the one behind it can be executed next
	to   []int // or one of these
	any  bool  // or any one
	ends bool  // the function returns
	// moves means that it only copies a value or a constant to a register, or from one.
	moves bool
	// acts means that it calls, branches, or writes to memory other than the stack.
	acts bool
	// loads means that all code of the line from here on moves, and computes that none of it acts.
	loads, computes bool
}

const (
	// maxFlow is the maximum size of the code of a function with a selected line.
	maxFlow = 1 << 20
	// flowWork is the maximum number of steps of searches. It takes seconds.
	flowWork = 1 << 28
)

// after calls visit with the instructions that can be executed after one of some, without those
// behind an instruction of a set. visit reports whether the search goes on.
func (f *flow) after(from []int, without map[int]bool, visit func(i int) (more bool)) {
	seen := make([]bool, len(f.steps))
	var queue []int
	push := func(i int) {
		if !seen[i] {
			seen[i] = true
			queue = append(queue, i)
		}
	}
	for _, i := range from {
		push(i)
	}
	for len(queue) > 0 {
		i := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if *f.work--; !visit(i) {
			return
		}
		if without[i] {
			continue
		}
		for _, next := range f.following(i) {
			push(next)
		}
	}
}

// reaches reports whether an instruction can be executed after one of some, without one of a set in
// between. If all work is done, it can.
func (f *flow) reaches(from []int, to int, without map[int]bool) (ok bool) {
	if *f.work < 0 {
		return true
	}
	f.after(from, without, func(i int) bool {
		ok = ok || i == to
		return !ok
	})
	return ok
}

// leading calls visit with some instructions, and with those after which they can be executed.
// visit reports whether the search goes on behind an instruction.
func (f *flow) leading(to []int, visit func(i int) (more bool)) {
	if f.before == nil {
		f.before = make([][]int, len(f.steps))
		for i := range f.steps {
			for _, next := range f.following(i) {
				f.before[next] = append(f.before[next], i)
			}
		}
	}
	seen := make([]bool, len(f.steps))
	queue := slices.Clone(to)
	for len(queue) > 0 {
		i := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if seen[i] {
			continue
		}
		seen[i] = true
		if *f.work--; visit(i) {
			queue = append(queue, f.before[i]...)
		}
	}
}

// following returns the instructions that can be executed right after one.
func (f *flow) following(i int) (all []int) {
	s := &f.steps[i]
	if s.any && f.all == nil {
		for j := range f.steps {
			f.all = append(f.all, j)
		}
	}
	if s.any {
		return f.all
	}
	if all = s.to; s.next && i+1 < len(f.steps) {
		all = append(slices.Clip(all), i+1)
	}
	return all
}

// loops reports whether an instruction can be executed again before the function ends.
func (f *flow) loops(i int) bool { return f.reaches(f.following(i), i, nil) }
