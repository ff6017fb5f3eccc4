//go:build linux

package count

import (
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"

	"github.com/stretchr/testify/require"
)

// TestRates: rates are of the time since the last screen. A final screen that follows at once has those since the screen before, and
// what was recorded before the run has its own time.
func TestRates(t *testing.T) {
	c := &streamCounter{reporter: newReporter(&console.Console{}, Options{Interval: time.Second})}
	start := c.shown[1].at
	c.begin(start.Add(-9 * time.Second))
	row := &Row[Probe]{key: "row"}
	for _, at := range []struct {
		seconds float64
		count   uint64
		last    bool
		want    float64
	}{{1, 100, false, 10}, {2, 150, false, 50}, {2.25, 175, true, 60}, {3.25, 275, true, 100}} {
		c.until = func() time.Time { return start.Add(time.Duration(at.seconds * 1e9)) }
		row.Count = at.count
		require.InDelta(t, at.want, c.rates([]*Row[Probe]{row}, at.last)[row], 1e-6, at)
	}
}
