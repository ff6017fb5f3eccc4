//go:build linux

package function

import (
	"debug/elf"
	"errors"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/gotable"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/source"
)

// errShared means that the value at a place can be another one.
var errShared = errors.New("its place is also used for something else")

// effect is what an instruction does to the places of variables.
type effect struct {
	registers uint64 // those that it writes, by DWARF's numbers
	calls     bool   // it writes all registers
	// stack means that it writes to memory at an offset from the stack pointer, or takes the
	// address of it, if size is 0. Otherwise size is the number of bytes.
	stack        bool
	offset, size int64
}

// effect returns what an instruction does. ok is false if it is unknown.
func (p *Program) effect(code []byte) (e effect, ok bool) {
	if p.file.Machine == elf.EM_AARCH64 {
		return effectARM64(code)
	}
	return effectX86(code)
}

// doubt returns an error if something else may have been written to the place of a variable: to
// that of a list while the list says that the variable is there, or to a fixed one after the
// variable's own statement.
func (s *statementReader) doubt(v *source.Variable, name string, t *goType, all []piece) error {
	own, others := s.writers(v, name, t, all)
	here, ok := s.body.at(s.fn.Entry - s.body.entry)
	for _, i := range others {
		fixed := v.Location.Fixed
		if !fixed || !ok || s.body.reaches(s.body.following(i), here, own) {
			return errShared
		}
	}
	return nil
}

// writers returns the instructions of a variable's own statement, if its place is fixed, and others
// that may write to the place.
func (s *statementReader) writers(
	v *source.Variable, name string, t *goType, all []piece,
) (own map[int]bool, others []int) {
	b, at := s.body, v.Location
	first, last := v.Line, v.Line
	if s.sourceErr == nil && !v.Captured {
		d := s.declaration(v, name)
		first, last = d.First, d.Last
	}
	own = map[int]bool{}
	stretches := b.stretches
	for i, offset := range b.offsets {
		address, next := b.entry+offset, b.entry+uint64(len(b.code))
		if i+1 < len(b.offsets) {
			next = b.entry + b.offsets[i+1]
		}
		for len(stretches) > 1 && stretches[0].End <= address {
			stretches = stretches[1:]
		}
		var in gotable.Stretch
		if len(stretches) > 0 {
			in = stretches[0]
		}
		grows := s.in.Frame && in.Stack <= 0 // and the function begins again
		switch {
		case at.Fixed && in.Call == s.in.Call && first <= in.Line && in.Line <= last:
			own[i] = true
		case grows:
		case !at.Fixed && (address < at.From || next >= at.To):
			// What the last instruction of a list writes is no longer the variable.
		default:
			e, ok := s.effect(b.code[offset:])
			if !ok || e.overwrites(all, t.size, s.Program.frame(in.Stack)) {
				others = append(others, i)
			}
		}
	}
	return own, others
}

// overwrites reports whether the effect changes one of the pieces of a value of a size. frame is
// the canonical frame address, from the stack pointer.
func (e *effect) overwrites(all []piece, size, frame int64) bool {
	for i := range all {
		p := &all[i]
		n := p.size
		if n == 0 {
			n = size
		}
		start := e.offset - frame
		switch {
		case p.register >= 0 && (e.calls || p.register < 64 && e.registers>>p.register&1 != 0):
			return true
		case p.memory && e.stack && start < p.offset+n && p.offset < start+max(e.size, 1):
			return true
		}
	}
	return false
}
