//go:build linux

package bpf

import (
	"github.com/cilium/ebpf/asm"
)

// typeInTable is the offset of a value's type in the table of an interface (abi.ITab).
const typeInTable = 8

// dynamicType replaces the first word of an interface in R0 by the type of its value. The type is
// an address of the file, so that it is the same in all processes.
func (b *builder) dynamicType(a Arg, unreadable string) {
	none := b.fresh("nil")
	b.add(asm.JEq.Imm(asm.R0, 0, none))
	if a.Methods {
		b.add(asm.Mov.Reg(asm.R3, asm.R0), asm.Add.Imm(asm.R3, typeInTable))
		b.readWord(8, unreadable)
	}
	b.add(asm.LoadMem(asm.R1, regContext, ipOffset, asm.DWord), asm.Sub.Reg(asm.R0, asm.R1))
	b.constant(asm.R1, a.Delta)
	b.add(asm.Add.Reg(asm.R0, asm.R1))
	b.label(none)
}

// stringLength puts the length of a Go string on the stack and returns its offset.
func (b *builder) stringLength(i int, unreadable string) (at int16, err error) {
	a := *b.probe.arg(i)
	at = b.alloc(8)
	if err := b.operand(*a.Length, a, unreadable); err != nil {
		return 0, err
	}
	b.add(asm.StoreMem(asm.RFP, at, asm.R0, asm.DWord))
	return at, nil
}

// readString reads up to most bytes of the Go string whose address and length are on the stack to
// an offset from a register. R0 is the number of bytes plus 1, as readText counts, or negative if
// the string cannot be read.
func (b *builder) readString(to asm.Register, offset int16, most int32, addr, length int16) {
	done := b.fresh("string")
	b.atMost(asm.RFP, length, most)
	b.readBytes(to, offset, addr)
	b.add(asm.JNE.Imm(asm.R0, 0, done))
	b.atMost(asm.RFP, length, most)
	b.add(asm.Mov.Reg(asm.R0, asm.R2), asm.Add.Imm(asm.R0, 1))
	b.label(done)
}

// atMost leaves the word at an offset from a register, or most if it is larger, in R2.
func (b *builder) atMost(from asm.Register, offset int16, most int32) {
	fits := b.fresh("fits")
	b.add(
		asm.LoadMem(asm.R2, from, offset, asm.DWord),
		asm.JLE.Imm(asm.R2, most, fits),
		asm.Mov.Imm(asm.R2, most),
	)
	b.label(fits)
}

// readBytes reads the number of bytes in R2 from the address on the stack to an offset from a
// register. R0 is 0 if all bytes could be read.
func (b *builder) readBytes(to asm.Register, offset, addr int16) {
	b.add(
		asm.Mov.Reg(asm.R1, to),
		asm.Add.Imm(asm.R1, int32(offset)),
		asm.LoadMem(asm.R3, asm.RFP, addr, asm.DWord),
		asm.FnProbeReadUser.Call(),
	)
	b.orFetch(addr, true)
}

// onlyCalls leaves the program if the branch of a stack check is taken, because the function starts
// again then. It is taken if the flag C is clear or Z is set.
func (b *builder) onlyCalls() {
	const flagC, flagZ = 1 << 29, 1 << 30
	b.add(
		asm.LoadMem(asm.R0, regContext, flagsOffset, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.And.Imm(asm.R1, flagC),
		asm.JEq.Imm(asm.R1, 0, labelExit),
		asm.And.Imm(asm.R0, flagZ),
		asm.JNE.Imm(asm.R0, 0, labelExit),
	)
}
