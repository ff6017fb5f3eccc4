//go:build linux

package function

import (
	"debug/elf"
	"errors"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/gotable"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/source"
)

var (
	// errShared means that the value at a place can be another one.
	errShared = errors.New("its place is also used for something else")
	errFirst  = errors.New("it may have no place of its own")
	errUnset  = errors.New("it may not have been set yet")
)

// doubt returns an error if something else may have been written to the place of a variable: to
// that of a list while the list says that the variable is there, or to a fixed one after the
// variable's own statement. It is also an error if the variable is described where its statement
// has not been executed, or not to its end.
func (s *statementReader) doubt(v *source.Variable, name string, t *goType, all []piece) error {
	own := s.ownOf(v, name)
	here, ok := s.body.at(s.fn.Entry - s.body.entry)
	if !ok {
		return errShared
	}
	if slices.ContainsFunc(all, isFirst) && !s.isPassed(v) && !s.setsFirst(own, here) {
		return errFirst
	}
	if !v.Parameter && !v.Captured {
		from := here
		if !v.Location.Fixed {
			from, ok = s.body.at(v.Location.From - s.body.entry)
		}
		if !ok || own.before[from] || own.before[here] || own.during[here] {
			return errUnset
		}
	}
	for _, i := range s.writers(v, own, t, all) {
		if s.body.reaches(s.body.following(i), here, own.fixed(v)) {
			return errShared
		}
	}
	return nil
}

// isFirst reports whether a part is in the first register. The compiler also names that where it
// knows of no place, and for the zero register of arm64, which has no number in DWARF.
func isFirst(p piece) bool { return p.register == 0 }

// setsFirst reports whether a variable's own statement has written last to the first register. On
// arm64 that does not help: the statement can write a zero and something else.
func (s *statementReader) setsFirst(own *ownStatement, here int) bool {
	first := []piece{{}}
	if s.file.Machine == elf.EM_AARCH64 || s.actions[here].overwrites(first, wordSize) {
		return false
	}
	sets := *s.body.work >= 0
	s.body.leading([]int{here}, func(i int) (more bool) {
		writes := s.actions[i].overwrites(first, wordSize)
		sets = sets && (writes && own.all[i] || !writes && i > 0)
		return !writes
	})
	return sets
}

// isPassed reports whether a variable is where the caller of the function has put it.
func (s *statementReader) isPassed(v *source.Variable) bool {
	return v.Parameter && s.in.Call < 0 && v.Location.From == s.body.entry
}

// writers returns the instructions that may write to the place of a variable. A fixed place is
// written by its own statement.
func (s *statementReader) writers(
	v *source.Variable, own *ownStatement, t *goType, all []piece,
) (others []int) {
	at := v.Location
	for i := range s.actions {
		a := &s.actions[i]
		switch {
		case at.Fixed && own.all[i]:
		case !at.Fixed && (a.address < at.From || a.next >= at.To):
			// What the last instruction of a list writes is no longer the variable.
		case a.overwrites(all, t.size):
			others = append(others, i)
		}
	}
	return others
}

// action is an instruction of a function.
type action struct {
	effect
	in            gotable.Stretch
	address, next uint64 // of it and of the next one
}

// actionsOf returns the instructions of a function. Those that only grow the stack do nothing,
// because the function begins again.
func (p *Program) actionsOf(b *body, framed bool) (all []action) {
	stretches := p.table.Stretches(b.entry)
	for i, offset := range b.offsets {
		a := action{address: b.entry + offset, next: b.entry + uint64(len(b.code))}
		if i+1 < len(b.offsets) {
			a.next = b.entry + b.offsets[i+1]
		}
		for len(stretches) > 1 && stretches[0].End <= a.address {
			stretches = stretches[1:]
		}
		if len(stretches) > 0 {
			a.in = stretches[0]
		}
		if !framed || a.in.Stack > 0 {
			a.effect = p.effect(b.code[offset:], a.address)
			a.offset -= p.frame(a.in.Stack)
		}
		all = append(all, a)
	}
	return all
}
