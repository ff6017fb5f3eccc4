//go:build linux && (amd64 || arm64)

package bpf

import (
	"math"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBounds: the kernel finds the bucket that a value belongs to by its bounds.
func TestBounds(t *testing.T) {
	m := newMachine(t)
	for name, list := range map[string]struct {
		bounds []float64
		scale  float64
	}{
		"none":    {nil, 1},
		"seconds": {[]float64{.005, .01, .025, .1, 1, 10}, 1e-9},
		"signed":  {[]float64{-100, -1, 0, 1, 1e30}, 1},
	} {
		for _, typ := range []expr.Type{{Kind: expr.Int, Size: 8}, {Kind: expr.Uint, Size: 8}} {
			checkBounds(t, m, name, list.bounds, list.scale, typ)
		}
	}
}

func checkBounds(t *testing.T, m *machine, name string, list []float64, scale float64, typ expr.Type) {
	t.Helper()
	bounds, err := layout.NewBounds(list, scale, typ)
	require.NoError(t, err)
	values := append([]uint64{4_999_999, 5_000_000, 5_000_001, 10_000_000_000, 10_000_000_001}, interesting...)
	for _, v := range values {
		b := newBuilder(&Env{}, sample())
		b.constant(asm.R0, int64(v))
		b.bounds(bounds, typ)
		b.add(asm.Mov.Reg(regTime, asm.R0), asm.Mov.Imm(regMissing, 0))
		got, _ := m.finish(b, "")
		require.Less(t, got, uint64(bounds.Len()), "%s, %v: %d", name, typ, int64(v))
		require.Equal(t, bounds.Slot(typ, v), bounds.Slots[got], "%s, %v: %d", name, typ, int64(v))
		value := float64(v)
		if typ.Kind == expr.Int {
			value = float64(int64(v))
		}
		// What divides float64s exactly enough for these values.
		want := 0
		for want < len(list) && value > math.Round(list[want]/scale) {
			want++
		}
		assert.Equal(t, want, bounds.Slots[int(got)], "%s, %v: %v", name, typ, value)
	}
}

// TestExponential: the buckets of a native histogram are those of its schema.
func TestExponential(t *testing.T) {
	typ := expr.Type{Kind: expr.Uint, Size: 8}
	for _, scale := range []float64{1, 1e-9, 1e-3, 1024} {
		list, first := layout.Exponential(scale)
		bounds, err := layout.NewBounds(list, scale, typ)
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
