package kind

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestMemory: the memory of a time that a moment represents becomes this moment, and no other time
// becomes one.
func TestMemory(t *testing.T) {
	require.Equal(t, TimeName, reflect.TypeFor[time.Time]().String())
	first, last := time.Unix(FirstSecond, 0), time.Unix(LastSecond, 999_999_999)
	all := []time.Time{
		{}, time.Now(), time.Now().Round(0), time.Unix(0, -1), first, last,
		time.Unix(1, 1).In(time.FixedZone("", 3600)), // and those that no moment represents:
		time.Time{}.Add(1), first.Add(-1), last.Add(1), time.Date(9999, 1, 2, 3, 4, 5, 6, time.UTC),
		time.Unix(math.MinInt64, 5), time.Unix(math.MaxInt64, 5), time.Unix(1<<60, 0),
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		all = append(all, time.Unix(int64(random.Uint64()), 0), time.Unix(0, int64(random.Uint64())),
			time.Now().Add(time.Duration(random.Int64N(1e18)))) // still with the flag
	}
	for _, at := range all {
		// SAFETY: the words are those of at, which lives until the end of the loop's body.
		words := (*[2]uint64)(unsafe.Pointer(&at))
		n, ok := FromWords(words[0], words[1])
		require.Equal(t, at.IsZero() || !at.Before(first) && !at.After(last), ok, at)
		if ok {
			require.Equal(t, FromTime(at), n, at)
		}
	}
	for _, wrong := range [][2]uint64{
		{1e9, 0}, {1e9, -Start1}, {1 << 63, 1}, {1<<63 | 1_000_000_000, 0}, {1 << WallFraction, -Start1},
		{0, 1 << 63}, {0, math.MaxInt64}, {math.MaxUint64, 0},
	} {
		_, ok := FromWords(wrong[0], wrong[1])
		require.Equal(t, wrong == [2]uint64{1 << 63, 1}, ok, wrong) // which is the beginning of 1885
	}
}
