package values

import (
	"math"
	"testing"

	"github.com/go-stapsdt/stapsdt"

	"github.com/stretchr/testify/require"
)

func TestEnds(t *testing.T) {
	require.Equal(t, []int8{0, 1, -1, math.MinInt8, math.MaxInt8}, Ends[int8]())
	require.Equal(t, []uint16{0, 1, math.MaxUint16, 0x8000, 0x7fff}, Ends[uint16]())
	require.Equal(t, []int64{0, 1, -1, math.MinInt64, math.MaxInt64}, Ends[int64]())
	require.Equal(t, []uint64{0, 1, math.MaxUint64, 1 << 63, math.MaxInt64}, Ends[uint64]())
}

// Words are written out here, as what a debugger shows for each value.
func TestWord(t *testing.T) {
	type level int16
	for _, c := range []struct {
		value any
		word  uint64
	}{
		{uint8(0xff), 0xff}, {int8(-1), 0xffff_ffff_ffff_ffff}, {int8(math.MinInt8), 0xffff_ffff_ffff_ff80}, {int8(math.MaxInt8), 0x7f},
		{uint16(0x8000), 0x8000}, {level(math.MinInt16), 0xffff_ffff_ffff_8000},
		{uint32(1 << 31), 0x8000_0000}, {int32(math.MinInt32), 0xffff_ffff_8000_0000},
		{uint64(math.MaxUint64), 0xffff_ffff_ffff_ffff}, {int64(math.MinInt64), 0x8000_0000_0000_0000},
		{true, 1}, {false, 0},
		{float32(-1.5), 0xbfc0_0000}, {0.1, 0x3fb9_9999_9999_999a}, {math.Inf(-1), 0xfff0_0000_0000_0000},
	} {
		require.Equal(t, c.word, Word(c.value), "%T %v", c.value, c.value)
	}
	require.Panics(t, func() { Word("text") })
}

func TestFloats(t *testing.T) {
	require.Contains(t, Floats[float32](), float32(math.MaxFloat32))
	require.Contains(t, Floats[float64](), math.MaxFloat64)
	bits := map[uint64]bool{}
	for _, f := range Floats[float64]() {
		bits[Word(f)] = true
	}
	for _, f := range Floats[float32]() {
		bits[Word(f)] = true
	}
	require.Len(t, bits, len(Floats[float32]())+len(Floats[float64]())-2, "zero is zero in both, and the least is 1")
}

// Every integer type of argument is in Extremes, with values of its size and sign.
func TestExtremes(t *testing.T) {
	for typ, list := range Extremes {
		require.Len(t, list, len(Extremes[stapsdt.Uint8]))
		ends := map[uint64]bool{}
		for _, v := range list {
			ends[Word(v)] = true
		}
		require.Len(t, ends, len(list), "%v", typ)
		bits := 8 * typ.Size()
		if typ.Signed() {
			require.True(t, ends[-(uint64(1)<<(bits-1))], "%v", typ)
		} else {
			require.True(t, ends[math.MaxUint64>>(64-bits)], "%v", typ)
		}
	}
	require.Len(t, Extremes, 8)
}
