package kind

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTexts: what each class and unit looks like, for people and as JSON.
func TestTexts(t *testing.T) {
	negative := uint64(math.MaxUint64 - 4)
	for _, c := range []struct {
		class      Class
		unit       Unit
		size       int
		bits       uint64
		text, json string
	}{
		{Truth, None, 1, 1, "true", "true"},
		{Truth, None, 1, 0, "false", "false"},
		{Int, None, 2, negative, "-5", "-5"},
		{Uint, None, 8, negative, "18446744073709551611", "18446744073709551611"},
		{Float, None, 8, math.Float64bits(0.1), "0.1", "0.1"},
		{Float, None, 4, math.Float64bits(float64(float32(0.1))), "0.1", "0.1"},
		{Float, None, 8, math.Float64bits(float64(float32(0.1))), "0.10000000149011612", "0.10000000149011612"},
		{Float, None, 8, math.Float64bits(math.NaN()), "NaN", `"NaN"`},
		{Float, None, 4, math.Float64bits(math.Inf(-1)), "-Inf", `"-Inf"`},
		{Int, Nanoseconds, 8, 90e9, "1m30s", "90000000000"},
		{Int, Nanoseconds, 8, negative, "-5ns", "-5"},
		{Uint, Address, 8, 0xc000, "0xc000", `"0xc000"`},
		{Int, Moment, 8, 0, "1970-01-01T00:00:00Z", `"1970-01-01T00:00:00Z"`},
		{Int, Moment, 8, negative, "1969-12-31T23:59:59.999999995Z", `"1969-12-31T23:59:59.999999995Z"`},
		{Int, Moment, 8, 1 << 63, "0001-01-01T00:00:00Z", `"0001-01-01T00:00:00Z"`},
		{Int, Moment, 8, math.MaxInt64, "2262-04-11T23:47:16.854775807Z", `"2262-04-11T23:47:16.854775807Z"`},
	} {
		require.Equal(t, c.text, string(AppendText(nil, c.class, c.unit, c.size, c.bits)))
		sent := AppendJSON([]byte("["), c.class, c.unit, c.size, c.bits)
		require.Equal(t, "["+c.json, string(sent))
		require.True(t, json.Valid(append(sent, ']')))
		bits := Parse(c.class, c.unit, strings.Trim(c.json, `"`))
		require.Equal(t, c.json, string(AppendJSON(nil, c.class, c.unit, c.size, bits)))
	}
	require.Empty(t, AppendText(nil, Text, None, 0, 7))
}

// TestMoments: a time that an int64 can hold stays the same moment, and any other is at one of the ends.
func TestMoments(t *testing.T) {
	first, last := time.Unix(FirstSecond, 0), time.Unix(LastSecond, 999_999_999)
	all := []time.Time{first, last, time.Unix(0, -1), time.Now()}
	random := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		all = append(all, time.Unix(0, int64(random.Uint64())), time.Unix(int64(random.Uint64()%1e9)-5e8, 0))
	}
	for day := first.Truncate(24 * time.Hour).Add(24 * time.Hour); day.Before(last); day = day.Add(24 * time.Hour) {
		all = append(all, day, day.Add(-1))
	}
	for _, at := range all {
		text := string(AppendText(nil, Int, Moment, 8, uint64(at.UnixNano())))
		if want := at.UTC().Format(time.RFC3339Nano); text != want { // require.Equal would take seconds
			require.Equal(t, want, text)
		}
		n, err := ParseTime(text)
		if err != nil || n != at.UnixNano() || !ToTime(FromTime(at)).Equal(at) {
			require.NoError(t, err)
			require.Equal(t, at.UnixNano(), n)
			require.True(t, ToTime(FromTime(at)).Equal(at))
		}
	}
	for _, at := range []time.Time{{}, first.Add(-1), time.Unix(math.MinInt64, 0)} {
		require.EqualValues(t, math.MinInt64, FromTime(at), at)
	}
	for _, at := range []time.Time{last.Add(1), time.Unix(1<<60, 0)} {
		require.EqualValues(t, math.MaxInt64, FromTime(at), at)
	}
	n, err := ParseTime("0001-01-01T00:00:00Z")
	require.NoError(t, err)
	require.True(t, ToTime(n).IsZero())
	_, err = ParseTime("yesterday")
	require.Error(t, err)
	for _, wrong := range []string{"", "x", "7", "null"} {
		require.Zero(t, Parse(Int, Moment, wrong), "not the zero Time")
	}
}

func TestFileTime(t *testing.T) {
	for _, at := range []time.Time{
		time.Unix(0, 0), time.Unix(1709164799, 123456789), time.Unix(1709164800, 5), time.Date(2026, 12, 31, 23, 59, 59, 999999999, time.Local), time.Unix(-1, 1),
	} {
		require.Equal(t, at.UTC().Format("20060102T150405.000000000Z"), FileTime(at))
	}
}
