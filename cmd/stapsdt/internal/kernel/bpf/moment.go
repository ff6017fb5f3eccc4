//go:build linux

package bpf

import (
	"math"

	"github.com/go-stapsdt/stapsdt/internal/kind"

	"github.com/cilium/ebpf/asm"
)

// The seconds from the beginning of the year 1 to that of other years.
const (
	before1885 = 59_453_308_800
	before1970 = 62_135_596_800
)

// moment replaces the field wall of a time.Time in R0 by the nanoseconds since 1970, which are the
// smallest number for the zero time. It jumps to unreadable if no number represents the time.
// Package time documents the fields: after a flag, wall has 33 bits of seconds since 1885 and 30 of
// nanoseconds. Without the flag, ext has the seconds since the year 1.
func (b *builder) moment(a Arg, unreadable string) error {
	const nanoseconds, second = 30, 1_000_000_000
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
	b.constant(asm.R2, before1970-before1885)
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
	b.constant(asm.R2, before1970+kind.FirstSecond)
	b.add(asm.JSLT.Reg(asm.R0, asm.R2, unreadable))
	b.constant(asm.R2, before1970+kind.LastSecond)
	b.add(asm.JSGT.Reg(asm.R0, asm.R2, unreadable))
	b.constant(asm.R2, before1970)
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
