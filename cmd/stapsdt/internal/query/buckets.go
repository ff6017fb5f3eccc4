package query

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/go-stapsdt/stapsdt/internal/expr"
)

// Buckets divides the values of a histogram.
type Buckets interface {
	// Len is the number of buckets.
	Len() int
	// Of returns the index of the bucket for the bits of a value.
	Of(t expr.Type, value uint64) int
	// Bounds returns the lowest value of a bucket, and the first value above it. The outermost
	// buckets have math.Inf as a bound.
	Bounds(i int) (low, high float64)
	// Fits returns an error if values of a type do not fit the buckets.
	Fits(t expr.Type) error
	// Group returns the bounds of the larger bucket that is displayed for the bucket that
	// begins at low.
	Group(low, high float64) (from, to float64)
	// Code has the kernel find the bucket of a value, by the method for these buckets.
	Code(BucketCode)
}

// BucketCode generates the code that finds the bucket of a value. It has a method for each
// implementation of Buckets, so that a further one cannot be forgotten.
type BucketCode interface {
	Powers(Powers)
	Linear(Linear)
}

// Powers has eight buckets between a power of two and the next one, and one bucket for each number
// below 16. All negative numbers share a bucket.
type Powers struct{}

// The buckets of Powers.
const (
	// bits of a number, after its first bit, that select a bucket
	SubBits   = 3
	Exact     = 2 << SubBits                    // the first number that has no bucket of its own
	Negative  = Exact + (64-SubBits-1)<<SubBits // the bucket of negative numbers
	powersLen = Negative + 1
)

// Len returns the number of buckets.
func (Powers) Len() int { return powersLen }

// Of returns the bucket of a value.
func (Powers) Of(t expr.Type, v uint64) int {
	switch {
	case t.Kind == expr.Int && int64(v) < 0:
		return Negative
	case v < Exact:
		return int(v)
	}
	e := bits.Len64(v) - 1
	return Exact + (e-SubBits-1)<<SubBits + int(v>>(e-SubBits))&(1<<SubBits-1)
}

// Bounds returns the bounds of a bucket.
func (Powers) Bounds(i int) (low, high float64) {
	switch {
	case i == Negative:
		return math.Inf(-1), 0
	case i < Exact:
		return float64(i), float64(i + 1)
	}
	e := (i-Exact)>>SubBits + SubBits + 1
	sub := (i - Exact) & (1<<SubBits - 1)
	width := math.Ldexp(1, e-SubBits)
	low = math.Ldexp(1, e) + float64(sub)*width
	return low, low + width
}

// Fits returns nil.
func (Powers) Fits(expr.Type) error { return nil }

// Group returns the powers of two around a bucket, but 0 and 1 stay alone.
func (Powers) Group(low, high float64) (from, to float64) {
	switch {
	case low < 0:
		return low, high
	case low < 2:
		return low, low + 1
	}
	low = math.Exp2(math.Floor(math.Log2(low)))
	return low, 2 * low
}

// Code implements Buckets.
func (p Powers) Code(c BucketCode) { c.Powers(p) }

// Linear has buckets of the same size from Low to High, one bucket for lower values, and one for
// values from High on.
type Linear struct{ Low, High, Step int64 }

// maxLinear limits the output of a histogram.
const maxLinear = 1000

// Check returns an error if the bounds are not valid.
func (l Linear) Check() error {
	switch {
	case l.Step <= 0:
		return errors.New("the step must be positive")
	case l.High <= l.Low:
		return errors.New("the upper bound must be above the lower one")
	case uint64(l.High-l.Low)/uint64(l.Step) >= maxLinear:
		return fmt.Errorf("the histogram has more than %d buckets", maxLinear)
	}
	return nil
}

// Len returns the number of buckets.
func (l Linear) Len() int {
	span, step := uint64(l.High-l.Low), uint64(l.Step)
	n := int(span/step) + 2
	if span%step != 0 {
		n++
	}
	return n
}

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

// Fits returns an error if the bounds are below all values of a type.
func (l Linear) Fits(t expr.Type) error {
	if t.Kind == expr.Uint && l.Low < 0 {
		return fmt.Errorf("this is a %v, but the lower bound is negative", t)
	}
	return nil
}

// Group returns the bounds.
func (l Linear) Group(low, high float64) (from, to float64) { return low, high }

// Code implements Buckets.
func (l Linear) Code(c BucketCode) { c.Linear(l) }
