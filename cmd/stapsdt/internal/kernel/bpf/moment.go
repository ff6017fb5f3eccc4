//go:build linux

package bpf

import (
	"math"

	"github.com/go-stapsdt/stapsdt/internal/kind"

	"github.com/cilium/ebpf/asm"
)

// moment replaces the field wall of a time.Time in R0 by the moment that kind.FromWords returns. It
// jumps to unreadable if there is none.
func (b *builder) moment(a Arg, unreadable string) error {
	const nanoseconds, second = kind.WallFraction, 1_000_000_000
	wall := b.alloc(8)
	b.add(asm.StoreMem(asm.RFP, wall, asm.R0, asm.DWord))
	if err := b.operand(*a.Ext, a, unreadable); err != nil {
		return err
	}
	bare, set, known, done := b.fresh("bare"), b.fresh("set"), b.fresh("seconds"), b.fresh("moment")
	b.add(
		asm.LoadMem(asm.R1, asm.RFP, wall, asm.DWord),
		asm.JSGE.Imm(asm.R1, 0, bare),
		asm.Mov.Reg(asm.R0, asm.R1), asm.LSh.Imm(asm.R0, 1), asm.RSh.Imm(asm.R0, nanoseconds+1),
	)
	b.constant(asm.R2, -kind.Start1885)
	b.add(asm.Sub.Reg(asm.R0, asm.R2))
	b.jump(known)

	b.label(bare)
	b.add(
		asm.JNE.Imm(asm.R0, 0, set),
		asm.JNE.Imm(asm.R1, 0, set),
	)
	b.constant(asm.R0, math.MinInt64)
	b.jump(done)
	b.label(set)
	b.constant(asm.R2, kind.FirstSecond-kind.Start1)
	b.add(asm.JSLT.Reg(asm.R0, asm.R2, unreadable))
	b.constant(asm.R2, kind.LastSecond-kind.Start1)
	b.add(asm.JSGT.Reg(asm.R0, asm.R2, unreadable))
	b.constant(asm.R2, -kind.Start1)
	b.add(
		asm.Sub.Reg(asm.R0, asm.R2),
		asm.Mov.Reg(asm.R2, asm.R1), asm.RSh.Imm(asm.R2, nanoseconds),
		asm.JNE.Imm(asm.R2, 0, unreadable),
	)

	b.label(known)
	b.add(
		asm.And.Imm(asm.R1, 1<<nanoseconds-1), asm.JGE.Imm(asm.R1, second, unreadable),
		asm.Mul.Imm(asm.R0, second), asm.Add.Reg(asm.R0, asm.R1),
	)
	b.label(done)
	return nil
}
