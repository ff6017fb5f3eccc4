package query

import (
	"math"
	"math/big"
	"math/rand/v2"
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

// TestFloat: a sum of any size is rounded as package big rounds it. One of 64 bits allocates nothing.
func TestFloat(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 2))
	short := 0
	for range 200000 {
		s := Sum{int64(source.Uint64()) >> source.IntN(64), int64(source.Uint64()) >> source.IntN(64)}
		exact := s.Int()
		want, _ := new(big.Float).SetInt(exact).Float64()
		if got := s.Float(); math.Float64bits(want) != math.Float64bits(got) {
			t.Fatalf("%+v: %v instead of %v", s, got, want)
		}
		if exact.IsInt64() {
			short++
		}
	}
	assert.True(t, 20000 < short && short < 180000, "%d sums of 64 bits", short)
	for _, s := range []Sum{{-1, -1}, {1<<32 - 1, math.MaxInt32}, {0, math.MinInt32}, {-1 << 40, 256}} {
		assert.Zero(t, testing.AllocsPerRun(10, func() { s.Float() }), "%+v", s)
	}
}
