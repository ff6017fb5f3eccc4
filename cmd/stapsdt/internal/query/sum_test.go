package query

import (
	"math"
	"math/big"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/stretchr/testify/assert"
)

// FuzzSum: sums of any integers are those of package big, in whichever order they are added.
func FuzzSum(f *testing.F) {
	f.Add(uint64(math.MaxUint64), uint64(math.MaxInt64), uint64(1<<63), uint8(200))
	f.Add(uint64(0), uint64(1<<32), uint64(1<<32-1), uint8(3))
	f.Fuzz(func(t *testing.T, a, b, c uint64, times uint8) {
		for _, of := range []expr.Type{{Kind: expr.Int, Size: 8}, {Kind: expr.Uint, Size: 8}} {
			var sum, part Sum
			want := new(big.Int)
			for range times {
				for _, v := range []uint64{a, b, c} {
					part.Add(of, v)
					if of.Kind == expr.Int {
						want.Add(want, big.NewInt(int64(v)))
					} else {
						want.Add(want, new(big.Int).SetUint64(v))
					}
				}
				sum.Merge(part)
				part = Sum{}
			}
			assert.Equal(t, want.String(), sum.Int().String())
			float, _ := new(big.Float).SetInt(want).Float64()
			assert.Equal(t, float, sum.Float())
		}
	})
}
