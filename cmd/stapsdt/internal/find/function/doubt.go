//go:build linux

package function

import (
	"cmp"
	"debug/elf"
	"errors"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/gotable"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/source"
)

var (
	// errShared means that the value at a place can be another one.
	errShared = errors.New("its place is also used for something else")
	errUnset  = errors.New("it may not have been set yet")
)

// effect is what an instruction does to the places of variables.
type effect struct {
	unknown   bool   // it may do anything
	registers uint64 // those that it writes, by DWARF's numbers
	calls     bool   // it writes all registers, unless the function that it calls is known
	callee    uint64 // the function, or 0
	// stack means that it writes to memory at an offset from the stack pointer, or takes the
	// address of it, if size is 0. Otherwise size is the number of bytes.
	stack        bool
	offset, size int64
}

// effect returns what an instruction at an address does.
func (p *Program) effect(code []byte, at uint64) (e effect) {
	if p.file.Machine == elf.EM_AARCH64 {
		e = effectARM64(code)
	} else {
		e = effectX86(code)
	}
	if e.callee != 0 {
		callee := e.callee + at
		if e.registers, e.calls = p.preserves(callee); p.panics(callee) {
			e.registers, e.calls = 0, false // the execution does not go on
		}
	}
	return e
}

// preserves returns the registers that a call of a function writes, or that it writes all.
func (p *Program) preserves(callee uint64) (registers uint64, all bool) {
	a, ok := p.table.At(callee)
	if !ok || a.Entry != callee {
		return 0, true
	}
	switch name := a.Names[len(a.Names)-1]; {
	case strings.HasPrefix(name, "runtime.gcWriteBarrier"):
		return scratch[p.file.Machine].barrier, false
	case name == "runtime.duffzero" || name == "runtime.duffcopy":
		return scratch[p.file.Machine].duff, false
	}
	return 0, true
}

// scratch are the registers that functions write which preserve others: the write barrier, whose
// result is the place in the buffer, and those that clear and copy memory.
var scratch = map[elf.Machine]struct{ barrier, duff uint64 }{
	elf.EM_X86_64:  {1 << 11, 1<<4 | 1<<5},                                         // R11; RSI, RDI
	elf.EM_AARCH64: {1<<25 | 1<<27 | 1<<30, 1<<16 | 1<<17 | 3<<20 | 3<<26 | 1<<30}, // as REGTMP
}

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

// overwrites reports whether the effect changes one of the pieces of a value of a size. Its offset
// is that from the canonical frame address.
func (e *effect) overwrites(all []piece, size int64) bool {
	for i := range all {
		p := &all[i]
		end := p.offset + cmp.Or(p.size, size)
		switch {
		case e.unknown:
			return true
		case p.register >= 0 && (e.calls || p.register < 64 && e.registers>>p.register&1 != 0):
			return true
		case p.memory && e.stack && e.offset < end && p.offset < e.offset+max(e.size, 1):
			return true
		}
	}
	return false
}
