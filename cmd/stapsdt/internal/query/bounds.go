package query

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/go-stapsdt/stapsdt/internal/expr"
)

// Bounds defines buckets by their inclusive upper bounds.
type Bounds struct {
	Upper []int64 // sorted, without duplicates; unsigned numbers have the same bits
	// Slots has the index of each bucket in the list from which the bounds were made.
	Slots []int
}

// maxBounds keeps rows, and the programs that search for a bucket, small.
const maxBounds = 640

// NewBounds converts bounds to integers, each scale times its value. It leaves out duplicates, and
// bounds that no value of the type exceeds. The bucket above all bounds has the index len(bounds).
func NewBounds(bounds []float64, scale float64, t expr.Type) (*Bounds, error) {
	b := &Bounds{}
	for i, bound := range bounds {
		x, above, below := toInteger(bound/scale, t)
		switch {
		case below:
			continue
		case above:
			b.Slots = append(b.Slots, i)
			return b, nil
		case len(b.Upper) > 0 && b.Upper[len(b.Upper)-1] == x:
			continue
		}
		b.Upper, b.Slots = append(b.Upper, x), append(b.Slots, i)
	}
	b.Slots = append(b.Slots, len(bounds))
	if len(b.Slots) > maxBounds {
		return nil, fmt.Errorf("there are %d buckets, at most %d are possible", len(b.Slots), maxBounds)
	}
	return b, nil
}

// toInteger returns the largest integer that is not above x, except for errors of the division.
// above and below report that all values of the type are above or below x.
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

// Exponential returns the upper bounds of the buckets of a native histogram of schema 3, for
// integers that are scale times their value. The first bucket holds the values up to 0. The next
// buckets have the indexes from first on.
func Exponential(scale float64) (bounds []float64, first int) {
	first = int(math.Ceil(8*math.Log2(scale) - 1e-9))
	last := int(math.Ceil(8 * (64 + math.Log2(scale))))
	bounds = append(bounds, 0)
	for i := first; i <= last; i++ {
		bounds = append(bounds, math.Exp2(float64(i)/8))
	}
	return bounds, first
}

// Len returns the number of buckets.
func (b *Bounds) Len() int { return len(b.Slots) }

// Slot returns the index of a value's bucket in the list from which the bounds were made.
func (b *Bounds) Slot(t expr.Type, value uint64) int {
	i, _ := slices.BinarySearchFunc(b.Upper, value, func(bound int64, value uint64) int {
		if t.Kind == expr.Uint {
			return cmp.Compare(uint64(bound), value)
		}
		return cmp.Compare(bound, int64(value))
	})
	return b.Slots[i]
}
