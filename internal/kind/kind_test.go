package kind

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRows: every kind has a row, by which it is found, and every type that fits it has a name by
// which both are found.
func TestRows(t *testing.T) {
	types := map[Kind]int{}
	for k := Kind(1); int(k) < len(Rows); k++ {
		row := k.Row()
		require.NotEmpty(t, row.Name, k)
		require.NotEqual(t, Invalid, row.Class, k)
		require.Equal(t, k, Of(row.Class, row.Unit))
		for typ := math.MinInt8; typ <= math.MaxInt8; typ++ {
			typ := int8(typ)
			if !k.Fits(typ) {
				continue
			}
			types[k]++
			if k == Bool && typ < 0 {
				require.Equal(t, 1, row.Class.Size(typ), "of a signed byte")
				continue
			}
			require.Equal(t, typ, row.Class.Type(row.Class.Size(typ)))
			found, its, ok := Received(k.Sent(typ))
			require.True(t, ok, k.Sent(typ))
			require.Equal(t, k, found, k.Sent(typ))
			if row.Sent == "" {
				require.Equal(t, typ, its, k.Sent(typ))
			}
		}
	}
	require.Equal(t, map[Kind]int{
		Int64: 4, Uint64: 4, Float64: 2, String: 1, Bool: 2, Duration: 1, Pointer: 4, Time: 1,
	}, types)
}

// TestUnits: every unit says whether it can be added up, and what a difference counts. Amounts can be
// computed with each other, and points with their differences only.
func TestUnits(t *testing.T) {
	type answer struct {
		amount bool
		diff   Unit
	}
	answers := map[Unit]answer{
		None: {true, None}, Nanoseconds: {true, Nanoseconds}, Address: {true, None},
		Moment: {false, Nanoseconds},
	}
	for _, row := range Rows {
		require.Contains(t, answers, row.Unit, row.Name)
		require.Equal(t, answers[row.Unit], answer{row.Unit.IsAmount(), row.Unit.Diff()}, row.Name)
	}
	for u, of := range answers {
		for v, with := range answers {
			sum, added := u.Plus(v)
			diff, subtracted := u.Minus(v)
			switch {
			case of.amount && with.amount:
				require.True(t, added && subtracted && sum == diff, "%v %v", u, v)
			case of.amount:
				require.Equal(t, u == with.diff, added, "%v %v", u, v)
				require.False(t, subtracted, "%v %v", u, v)
			default:
				require.Equal(t, v == of.diff, added, "%v %v", u, v)
				require.Equal(t, v == of.diff || u == v, subtracted, "%v %v", u, v)
			}
			back, _ := v.Plus(u)
			require.True(t, sum == back || !added, "%v %v", u, v)
		}
	}
	sum, _ := Nanoseconds.Plus(None)
	require.Equal(t, Nanoseconds, sum)
	sum, _ = Nanoseconds.Plus(Moment)
	require.Equal(t, Moment, sum)
	diff, _ := Moment.Minus(Nanoseconds)
	require.Equal(t, Moment, diff)
	diff, _ = Moment.Minus(Moment)
	require.Equal(t, Nanoseconds, diff)
}

// TestUnknown: what no row has is no kind.
func TestUnknown(t *testing.T) {
	require.Empty(t, *Kind(0).Row())
	require.Empty(t, *Kind(200).Row())
	require.False(t, Kind(200).Fits(8))
	for typ, want := range map[int8]Kind{
		-4: Int64, 1: Uint64, TypeFloat32: Float64, TypeString: String, 3: 0, 0: 0,
	} {
		require.Equal(t, want, Kind(200).Known(typ), typ)
		require.Equal(t, Duration, Duration.Known(typ))
	}
	require.Zero(t, Of(Uint, Nanoseconds))
	_, _, ok := Received("complex128")
	require.False(t, ok)
	require.Equal(t, Nanoseconds, Int.UnitOf("time.Duration", 8))
	require.Equal(t, None, Int.UnitOf("time.Duration", 4))
	require.Equal(t, None, Int.UnitOf("main.Duration", 8))
	require.Equal(t, None, Uint.UnitOf("pointer", 8), "a type in C")
	require.Equal(t, None, Int.UnitOf("", 8))
}
