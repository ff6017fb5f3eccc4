//go:build linux

package count

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"

	"github.com/stretchr/testify/require"
)

// TestRates: rates are of the time since the last screen. A final screen that follows at once has those since the screen before, and
// what was recorded before the run has its own time.
func TestRates(t *testing.T) {
	c := &streamCounter{reporter: newReporter(&console.Console{}, Options{Interval: time.Second}), stream: &events.Stream{}}
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

// TestTitles: histograms can be told apart by their titles, however long the names are.
func TestTitles(t *testing.T) {
	subject := Probe{"provider", strings.Repeat("n", 100)}
	var b bytes.Buffer
	WriteHistograms(&b, Histograms{Options: &Options{Expressions: Expressions{By: []string{"path"}, Buckets: layout.Powers{}}}, Columns: 80},
		[]*Row[Probe]{{Of: subject, Text: []string{"/a"}}, {Of: subject, Text: []string{"/b"}}}, " value")
	require.Contains(t, b.String(), "\n path=/a\n")
	require.Contains(t, b.String(), "\n path=/b\n")
}
