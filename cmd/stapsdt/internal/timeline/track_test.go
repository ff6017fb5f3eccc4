//go:build linux

package timeline

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLanes: whatever spans a goroutine has, those of a lane nest.
func TestLanes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		track := &track{lanes: make([]lane, 1)}
		var spans []interval
		for range 60 {
			start := random.Int64N(1000)
			spans = append(spans, interval{start, start + random.Int64N(300)})
		}
		slices.SortFunc(spans, func(a, b interval) int { return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(b.start, a.start)) })
		track.open = len(spans)
		lanes := map[int][]interval{}
		for _, s := range spans {
			track.open--
			n := track.lane(s.start, s.end)
			for _, other := range lanes[n] {
				isInside := other.start >= s.start && other.end <= s.end
				require.True(t, isInside || other.end <= s.start, "%v and %v", other, s)
			}
			lanes[n] = append(lanes[n], s)
		}
	}
	nested := &track{lanes: make([]lane, 1)}
	for i := range int64(5000) {
		require.Zero(t, nested.lane(5000-i, 5001+i), "each lies in the next one")
	}
	require.LessOrEqual(t, len(nested.lanes[0].finished), maxFinished)
}
