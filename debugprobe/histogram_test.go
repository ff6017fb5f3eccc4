package debugprobe

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzHistogram: a histogram of any numbers is JSON, and its numbers lie between the smallest and the largest.
func FuzzHistogram(f *testing.F) {
	for _, bits := range []uint64{0, 1, math.MaxInt64, 1 << 63, math.MaxUint64, math.Float64bits(math.MaxFloat64), math.Float64bits(-math.MaxFloat64), math.Float64bits(math.SmallestNonzeroFloat64)} {
		f.Add(bits, bits, uint8(3))
		f.Add(bits, uint64(7), uint8(200))
	}
	f.Fuzz(func(t *testing.T, a, b uint64, times uint8) {
		for kind, value := range map[expr.Kind]func(uint64) expr.Value{
			expr.Int: func(n uint64) expr.Value { return expr.IntValue(int64(n)) }, expr.Uint: expr.UintValue,
			expr.Float: func(n uint64) expr.Value { return expr.FloatValue(math.Float64frombits(n)) },
		} {
			e, err := expr.Parse("v", []expr.Var{{Name: "v", Type: expr.Type{Kind: kind, Size: 8}}})
			require.NoError(t, err)
			w := &watchedProbe{expressions: &expressions{value: e}}
			h, added := newHistogram(), uint64(0)
			for range int(times) + 1 {
				for _, n := range []uint64{a, b} {
					if h.add(w, value(n), expr.Value{}) {
						added++
					}
				}
			}
			c := h.chart(w)
			_, err = json.Marshal(c)
			require.NoError(t, err)
			for _, g := range c.Groups {
				assert.Equal(t, added, g.Count)
				for _, n := range []float64{g.Numbers.Mean, g.Numbers.P50, g.Numbers.P90, g.Numbers.P99} {
					assert.True(t, n >= g.Numbers.Min && n <= g.Numbers.Max, "%+v", g.Numbers)
				}
			}
		}
	})
}

// TestMean: sums that a float cannot represent have a mean.
func TestMean(t *testing.T) {
	e, err := expr.Parse("v", []expr.Var{{Name: "v", Type: expr.Type{Kind: expr.Float, Size: 8}}})
	require.NoError(t, err)
	w := &watchedProbe{expressions: &expressions{value: e}}
	h := newHistogram()
	for _, f := range []float64{math.MaxFloat64, math.MaxFloat64, -math.MaxFloat64, -math.MaxFloat64, 3} {
		require.True(t, h.add(w, expr.FloatValue(f), expr.Value{}))
	}
	require.InDelta(t, 0.6, h.chart(w).Groups[0].Numbers.Mean, 1e-9)
}
