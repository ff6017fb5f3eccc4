//go:build linux

package bpf

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/cilium/ebpf/asm"
)

// bucketOf replaces the value in R0 by the index of its bucket.
func (b *builder) bucketOf(buckets query.Buckets, t expr.Type) { buckets.Code(bucketCode{b, t}) }

// bucketCode implements query.BucketCode, for values of a type.
type bucketCode struct {
	*builder
	of expr.Type
}

// Powers implements query.BucketCode.
func (b bucketCode) Powers(query.Powers) {
	small, done := b.fresh("small"), b.fresh("bucket")
	if b.of.Kind == expr.Int {
		positive := b.fresh("positive")
		b.add(asm.JSGE.Imm(asm.R0, 0, positive), asm.Mov.Imm(asm.R0, query.Negative))
		b.jump(done)
		b.label(positive)
	}
	b.add(
		asm.JLT.Imm(asm.R0, query.Exact, small),
		asm.Mov.Reg(asm.R3, asm.R0),
		asm.Mov.Imm(asm.R2, 0), // the exponent
	)
	for step := int32(32); step > 0; step /= 2 {
		less := b.fresh("less")
		b.add(
			asm.Mov.Reg(asm.R4, asm.R3),
			asm.RSh.Imm(asm.R4, step),
			asm.JEq.Imm(asm.R4, 0, less),
			asm.Mov.Reg(asm.R3, asm.R4),
			asm.Add.Imm(asm.R2, step),
		)
		b.label(less)
	}
	b.add(
		asm.Mov.Reg(asm.R3, asm.R2),
		asm.Sub.Imm(asm.R3, query.SubBits),
		asm.RSh.Reg(asm.R0, asm.R3),
		asm.And.Imm(asm.R0, 1<<query.SubBits-1),
		asm.Sub.Imm(asm.R2, query.SubBits+1),
		asm.LSh.Imm(asm.R2, query.SubBits),
		asm.Add.Reg(asm.R0, asm.R2),
		asm.Add.Imm(asm.R0, query.Exact),
	)
	b.label(small)
	b.label(done)
}

// Linear implements query.BucketCode.
func (b bucketCode) Linear(l query.Linear) {
	below, above, done := b.fresh("below"), b.fresh("above"), b.fresh("bucket")
	less, notLess := asm.JLT, asm.JGE
	if b.of.Kind == expr.Int {
		less, notLess = asm.JSLT, asm.JSGE
	}
	b.constant(asm.R1, l.Low)
	b.constant(asm.R2, l.High)
	b.constant(asm.R3, l.Step)
	b.add(
		less.Reg(asm.R0, asm.R1, below),
		notLess.Reg(asm.R0, asm.R2, above),
		asm.Sub.Reg(asm.R0, asm.R1),
		asm.Div.Reg(asm.R0, asm.R3),
		asm.Add.Imm(asm.R0, 1),
	)
	b.jump(done)
	b.label(below)
	b.add(asm.Mov.Imm(asm.R0, 0))
	b.jump(done)
	b.label(above)
	b.add(asm.Mov.Imm(asm.R0, int32(l.Len()-1)))
	b.label(done)
}

// bounds is bucketOf for query.Bounds. It searches them as a binary tree of comparisons.
func (b *builder) bounds(bounds *query.Bounds, t expr.Type) {
	done := b.fresh("bucket")
	notAbove := asm.JLE
	if t.Kind == expr.Int {
		notAbove = asm.JSLE
	}
	var search func(low, high int)
	search = func(low, high int) {
		if low == high {
			b.add(asm.Mov.Imm(asm.R0, int32(low)))
			b.jump(done)
			return
		}
		middle, left := (low+high)/2, b.fresh("half")
		b.constant(asm.R1, bounds.Upper[middle])
		b.add(notAbove.Reg(asm.R0, asm.R1, left))
		search(middle+1, high)
		b.label(left)
		search(low, middle)
	}
	search(0, len(bounds.Upper))
	b.label(done)
}
