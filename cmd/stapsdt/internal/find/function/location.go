//go:build linux

package function

import (
	"debug/elf"
	"errors"
	"fmt"

	"github.com/go-stapsdt/stapsdt/internal/debuginfo"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// piece is the place of a part of a value: a register, or memory.
type piece struct {
	size     int64 // in bytes, or 0 for all of the value
	register int   // by DWARF's number, or -1
	memory   bool
	offset   int64 // from the canonical frame address
}

// isLost reports whether the part is nowhere.
func (p *piece) isLost() bool { return p.register < 0 && !p.memory }

var (
	errGone     = errors.New("optimized out here")
	errNever    = errors.New("optimized out")
	errMismatch = errors.New("its location does not fit its type")
	errPart     = errors.New("its location has one part of its type, but not which")
)

// Operations of expressions that the Go compiler writes (DWARF 5, 7.7.1).
const (
	opReg0      = 0x50
	opReg31     = 0x6f
	opRegX      = 0x90
	opFrameBase = 0x91
	opPiece     = 0x93
	opFrame     = 0x9c
)

// pieces reads an expression.
func pieces(b []byte) (all []piece, err error) {
	const nowhere = -1
	at, has := piece{register: nowhere}, false
	for len(b) > 0 {
		op, n, ok := b[0], uint64(0), true
		switch b = b[1:]; op {
		case opRegX, opPiece:
			n, b, ok = debuginfo.ULEB(b)
		case opFrameBase:
			at.offset, b, ok = debuginfo.SLEB(b)
		}
		if !ok || has && op != opPiece {
			return nil, errMismatch
		}
		has = true
		switch {
		case op >= opReg0 && op <= opReg31:
			at.register = int(op - opReg0)
		case op == opRegX:
			at.register = int(min(n, maxRegisterNumber))
		case op == opFrameBase, op == opFrame:
			at.memory = true
		case op == opPiece:
			at.size = int64(min(n, maxSize))
			all = append(all, at)
			at, has = piece{register: nowhere}, false
		default:
			return nil, fmt.Errorf("its location has the operation %#x", op)
		}
	}
	switch {
	case has && len(all) > 0:
		return nil, errMismatch
	case has:
		all = append(all, at)
	}
	for i := range all {
		if !all[i].isLost() {
			return all, nil
		}
	}
	return nil, errGone
}

// maxRegisterNumber is larger than DWARF's number of every register.
const maxRegisterNumber = 1 << 10

// registerX86 are the names of the registers by their numbers in DWARF.
var registerX86 = []string{
	"%rax", "%rdx", "%rcx", "%rbx", "%rsi", "%rdi", "%rbp", "%rsp",
	"%r8", "%r9", "%r10", "%r11", "%r12", "%r13", "%r14", "%r15",
}

// register returns the name of a register by its number in DWARF, and whether it is one of floats.
func register(machine elf.Machine, n int) (name string, isVector, ok bool) {
	if machine == elf.EM_AARCH64 {
		switch {
		case n < 31:
			return fmt.Sprintf("x%d", n), false, true
		case n >= 64 && n < 96:
			return fmt.Sprintf("v%d", n-64), true, true
		}
		return "", false, false
	}
	switch {
	case n < len(registerX86):
		return registerX86[n], false, true
	case n >= 17 && n <= 32:
		return fmt.Sprintf("%%xmm%d", n-17), true, true
	}
	return "", false, false
}

// local is the place of a local variable, at an instruction.
type local struct {
	machine elf.Machine
	frame   int64 // the canonical frame address, from the stack pointer
	// whole is the place of the value in memory, or nil if parts are the places of its parts, by
	// their offsets.
	whole *piece
	parts map[int64]piece
}

// operand returns the operand at an offset in the value, which has no kind if it is lost.
func (l *local) operand(a *abi, offset int64) (o sdt.Operand) {
	p, ok := l.parts[offset]
	if l.whole != nil {
		p, ok = *l.whole, true
		p.offset += offset
	}
	if !ok || p.isLost() {
		return o
	}
	if p.memory {
		return a.onStack(l.frame + p.offset)
	}
	name, isVector, ok := register(l.machine, p.register)
	if !ok {
		return o
	}
	if isVector {
		return vector(name)
	}
	return sdt.Operand{Kind: sdt.OperandRegister, Base: whole(name), Text: name}
}
