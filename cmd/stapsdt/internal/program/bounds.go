//go:build linux

package program

import (
	"fmt"
	"math"

	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/cilium/ebpf/asm"
)

// Bounds are buckets by their upper bounds, which belong to them.
type Bounds struct {
	upper []int64 // in order, each once; of unsigned numbers the bits
	// slots has for each bucket its number in the list that the bounds were made of.
	slots []int
}

// maxBounds keeps a row, and the program that looks for a bucket, small.
const maxBounds = 640

// NewBounds makes integer bounds of those in another unit, a value of which is scale times
// the integer. A bound that no value of the type exceeds is left out, as is one that has the
// same values as the one before. The bucket for what is above all bounds has the number
// len(bounds).
func NewBounds(bounds []float64, scale float64, t expr.Type) (*Bounds, error) {
	b := &Bounds{}
	for i, bound := range bounds {
		x, above, below := toInteger(bound/scale, t)
		switch {
		case below:
			continue
		case above:
			b.slots = append(b.slots, i)
			return b, nil
		case len(b.upper) > 0 && b.upper[len(b.upper)-1] == x:
			continue
		}
		b.upper, b.slots = append(b.upper, x), append(b.slots, i)
	}
	b.slots = append(b.slots, len(bounds))
	if len(b.slots) > maxBounds {
		return nil, fmt.Errorf("there are %d buckets, at most %d are possible", len(b.slots), maxBounds)
	}
	return b, nil
}

// toInteger returns the largest integer that is not above x, but for errors of the division,
// or says that all values of the type are below x, or above.
func toInteger(x float64, t expr.Type) (bits int64, above, below bool) {
	if nearest := math.Round(x); math.Abs(x-nearest) <= 1e-9*math.Abs(x) {
		x = nearest
	}
	x = math.Floor(x)
	if t.Kind == expr.Uint {
		return int64(uint64(x)), x >= 1<<64, x < 0
	}
	return int64(x), x >= 1<<63, x < -1<<63
}

// Exponential returns the upper bounds of the buckets of a native histogram of schema 3, of
// integers that are scale times their value. The first bucket has what is not above 0, and
// the next ones the indices from first on.
func Exponential(scale float64) (bounds []float64, first int) {
	first = int(math.Ceil(8*math.Log2(scale) - 1e-9))
	last := int(math.Ceil(8 * (64 + math.Log2(scale))))
	bounds = append(bounds, 0)
	for i := first; i <= last; i++ {
		bounds = append(bounds, math.Exp2(float64(i)/8))
	}
	return bounds, first
}

// Len is the number of buckets.
func (b *Bounds) Len() int { return len(b.slots) }

// emit leaves the bucket of R0 in R0.
func (b *Bounds) emit(c *builder, t expr.Type) {
	done := c.fresh("bucket")
	notAbove := asm.JLE
	if t.Kind == expr.Int {
		notAbove = asm.JSLE
	}
	var search func(low, high int)
	search = func(low, high int) {
		if low == high {
			c.add(asm.Mov.Imm(asm.R0, int32(low)))
			c.jump(done)
			return
		}
		middle, left := (low+high)/2, c.fresh("half")
		c.constant(asm.R1, b.upper[middle])
		c.add(notAbove.Reg(asm.R0, asm.R1, left))
		search(middle+1, high)
		c.label(left)
		search(low, middle)
	}
	search(0, len(b.upper))
	c.label(done)
}
