//go:build linux && (amd64 || arm64)

package bpf

import (
	"math"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBounds: the kernel finds the bucket that a value belongs to by its bounds.
func TestBounds(t *testing.T) {
	m := newMachine(t)
	for name, c := range map[string]struct {
		bounds []float64
		scale  float64
	}{
		"none":    {nil, 1},
		"seconds": {[]float64{.005, .01, .025, .1, 1, 10}, 1e-9},
		"signed":  {[]float64{-100, -1, 0, 1, 1e30}, 1},
	} {
		for _, typ := range []expr.Type{{Kind: expr.Int, Size: 8}, {Kind: expr.Uint, Size: 8}} {
			bounds, err := query.NewBounds(c.bounds, c.scale, typ)
			require.NoError(t, err)
			for _, v := range append([]uint64{4_999_999, 5_000_000, 5_000_001, 10_000_000_000, 10_000_000_001}, interesting...) {
				b := newBuilder(&Env{}, sample())
				b.constant(asm.R0, int64(v))
				b.bounds(bounds, typ)
				got, _ := m.finish(b, name)
				require.Less(t, got, uint64(bounds.Len()), "%s, %v: %d", name, typ, int64(v))
				require.Equal(t, bounds.Slot(typ, v), bounds.Slots[got], "%s, %v: %d", name, typ, int64(v))
				// Dividing float64s is exact enough for these values.
				value := toFloat(typ, v)
				want := 0
				for want < len(c.bounds) && value > math.Round(c.bounds[want]/c.scale) {
					want++
				}
				assert.Equal(t, want, bounds.Slots[int(got)], "%s, %v: %v", name, typ, value)
			}
		}
	}
}

// toFloat returns the value of bits.
func toFloat(t expr.Type, bits uint64) float64 {
	if t.Kind == expr.Int {
		return float64(int64(bits))
	}
	return float64(bits)
}

// TestExponential: the buckets of a native histogram are those of its schema.
func TestExponential(t *testing.T) {
	typ := expr.Type{Kind: expr.Uint, Size: 8}
	for _, scale := range []float64{1, 1e-9, 1e-3, 1024} {
		list, first := query.Exponential(scale)
		bounds, err := query.NewBounds(list, scale, typ)
		require.NoError(t, err)
		for _, v := range append([]uint64{3, 5, 1000, 123_456_789}, interesting...) {
			slot := bounds.Slot(typ, v)
			if v == 0 {
				assert.Zero(t, slot)
				continue
			}
			value, index := float64(v)*scale, first+slot-1
			low, high := math.Exp2(float64(index-1)/8), math.Exp2(float64(index)/8)
			// The integer is as near to a bound as it can be.
			assert.GreaterOrEqual(t, value, low*(1-1e-9), "scale %v: %v is in the bucket %d, of %v to %v", scale, value, index, low, high)
			assert.LessOrEqual(t, value-scale, high*(1+1e-9), "scale %v: %v is in the bucket %d, of %v to %v", scale, value, index, low, high)
			assert.LessOrEqual(t, value, high*(1+1e-9), "scale %v: %v is in the bucket %d, of %v to %v", scale, value, index, low, high)
		}
	}
}
