//go:build linux

package program

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/cilium/ebpf/asm"
)

// Buckets divide the values of a histogram.
type Buckets interface {
	// Len is the number of buckets.
	Len() int
	// Of returns the bucket of a value, by its bits.
	Of(t expr.Type, value uint64) int
	// Bounds returns the lowest value of a bucket, and the first one above it. What is below
	// all or above all has math.Inf as a bound.
	Bounds(i int) (low, high float64)

	// fits reports whether the buckets can be those of a type.
	fits(t expr.Type) error
	// emit leaves the bucket of R0 in R0.
	emit(b *builder, t expr.Type)
}

// Powers has eight buckets between a power of two and the next one, and one for each number
// below 16. All negative numbers have one bucket.
type Powers struct{}

const (
	subBits   = 3
	exact     = 2 << subBits
	negative  = exact + (64-subBits-1)<<subBits
	powersLen = negative + 1
)

// Len returns the number of buckets.
func (Powers) Len() int { return powersLen }

// Of returns the bucket of a value.
func (Powers) Of(t expr.Type, v uint64) int {
	switch {
	case t.Kind == expr.Int && int64(v) < 0:
		return negative
	case v < exact:
		return int(v)
	}
	e := bits.Len64(v) - 1
	return exact + (e-subBits-1)<<subBits + int(v>>(e-subBits))&(1<<subBits-1)
}

// Bounds returns the bounds of a bucket.
func (Powers) Bounds(i int) (low, high float64) {
	switch {
	case i == negative:
		return math.Inf(-1), 0
	case i < exact:
		return float64(i), float64(i + 1)
	}
	e := (i-exact)>>subBits + subBits + 1
	sub := (i - exact) & (1<<subBits - 1)
	width := math.Ldexp(1, e-subBits)
	low = math.Ldexp(1, e) + float64(sub)*width
	return low, low + width
}

func (Powers) fits(expr.Type) error { return nil }

func (Powers) emit(b *builder, t expr.Type) {
	small, done := b.fresh("small"), b.fresh("bucket")
	if t.Kind == expr.Int {
		positive := b.fresh("positive")
		b.add(asm.JSGE.Imm(asm.R0, 0, positive), asm.Mov.Imm(asm.R0, negative))
		b.jump(done)
		b.label(positive)
	}
	b.add(
		asm.JLT.Imm(asm.R0, exact, small),
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
		asm.Sub.Imm(asm.R3, subBits),
		asm.RSh.Reg(asm.R0, asm.R3),
		asm.And.Imm(asm.R0, 1<<subBits-1),
		asm.Sub.Imm(asm.R2, subBits+1),
		asm.LSh.Imm(asm.R2, subBits),
		asm.Add.Reg(asm.R0, asm.R2),
		asm.Add.Imm(asm.R0, exact),
	)
	b.label(small)
	b.label(done)
}

// Linear has buckets of the same size from Low to High, one for what is below, and one for
// what is not.
type Linear struct{ Low, High, Step int64 }

// maxLinear limits what a histogram prints.
const maxLinear = 1000

// Check reports whether the bounds make sense.
func (l Linear) Check() error {
	switch {
	case l.Step <= 0:
		return errors.New("the step must be positive")
	case l.High <= l.Low:
		return errors.New("the upper bound must be above the lower one")
	case uint64(l.High-l.Low)/uint64(l.Step) >= maxLinear:
		return fmt.Errorf("these are more than %d buckets", maxLinear)
	}
	return nil
}

func (l Linear) inner() int {
	span, step := uint64(l.High-l.Low), uint64(l.Step)
	n := int(span / step)
	if span%step != 0 {
		n++
	}
	return n
}

// Len returns the number of buckets.
func (l Linear) Len() int { return l.inner() + 2 }

// Of returns the bucket of a value.
func (l Linear) Of(t expr.Type, v uint64) int {
	switch {
	case t.Kind == expr.Int && int64(v) < l.Low, t.Kind == expr.Uint && v < uint64(l.Low):
		return 0
	case t.Kind == expr.Int && int64(v) >= l.High, t.Kind == expr.Uint && v >= uint64(l.High):
		return l.Len() - 1
	}
	return 1 + int((v-uint64(l.Low))/uint64(l.Step))
}

// Bounds returns the bounds of a bucket.
func (l Linear) Bounds(i int) (low, high float64) {
	switch i {
	case 0:
		return math.Inf(-1), float64(l.Low)
	case l.Len() - 1:
		return float64(l.High), math.Inf(1)
	}
	low = float64(l.Low) + float64(i-1)*float64(l.Step)
	return low, min(low+float64(l.Step), float64(l.High))
}

func (l Linear) fits(t expr.Type) error {
	if t.Kind == expr.Uint && l.Low < 0 {
		return fmt.Errorf("this is a %v, and the lower bound is negative", t)
	}
	return nil
}

func (l Linear) emit(b *builder, t expr.Type) {
	below, above, done := b.fresh("below"), b.fresh("above"), b.fresh("bucket")
	less, notLess := asm.JLT, asm.JGE
	if t.Kind == expr.Int {
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
