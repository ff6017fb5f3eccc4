//go:build linux && (amd64 || arm64)

package command_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"

	"github.com/stretchr/testify/require"
)

// traceFile is a file in the Trace Event Format.
type traceFile struct {
	DisplayTimeUnit string
	TraceEvents     []traceEvent
	OtherData       struct {
		LostEvents int `json:"lost_events"`
	}
}

type traceEvent struct {
	Name, Cat, Ph, S string
	Ts, Dur          float64
	PID, TID         int
	Args             map[string]any
}

// drawnBy returns what trace writes of what a program does.
func drawnBy(t *testing.T, source operated, act func(*tracetest.Process), args ...string) []traceEvent {
	t.Helper()
	path := filepath.Join(t.TempDir(), "timeline")
	source.run(t, act, append([]string{"trace", "-o", "chrome", "-O", path}, args...)...)
	var file traceFile
	require.NoError(t, json.Unmarshal(tracetest.Must(os.ReadFile(path))(t), &file))
	require.Equal(t, "ns", file.DisplayTimeUnit)
	require.Zero(t, file.OtherData.LostEvents)
	checkTracks(t, file.TraceEvents)
	return file.TraceEvents
}

// checkTracks checks what the format demands: a track and its process have names, and the spans of a track nest.
func checkTracks(t *testing.T, all []traceEvent) {
	t.Helper()
	named := map[[3]any]bool{}
	tracks := map[[2]int][]traceEvent{}
	for _, e := range all {
		switch e.Ph {
		case "M":
			require.False(t, named[[3]any{e.Name, e.PID, e.TID}], "%v: it is named once", e)
			named[[3]any{e.Name, e.PID, e.TID}] = true
			require.NotEmpty(t, e.Args["name"])
			continue
		case "X":
			require.GreaterOrEqual(t, e.Dur, 0.)
			tracks[[2]int{e.PID, e.TID}] = append(tracks[[2]int{e.PID, e.TID}], e)
		case "i":
			require.Equal(t, "t", e.S)
		default:
			require.Fail(t, "unknown phase "+e.Ph)
		}
		require.GreaterOrEqual(t, e.Ts, 0.)
		require.True(t, named[[3]any{"process_name", e.PID, 0}])
		require.True(t, named[[3]any{"thread_name", e.PID, e.TID}])
		require.True(t, strings.HasPrefix(e.Name, e.Cat+":"))
	}
	for _, spans := range tracks {
		slices.SortFunc(spans, func(a, b traceEvent) int {
			if a.Ts != b.Ts {
				return int(1e3 * (a.Ts - b.Ts))
			}
			return int(1e3 * (b.Dur - a.Dur))
		})
		var open []float64 // when they end
		for _, s := range spans {
			for len(open) > 0 && open[len(open)-1] <= s.Ts {
				open = open[:len(open)-1]
			}
			const rounding = 0.01
			require.True(t, len(open) == 0 || s.Ts+s.Dur <= open[len(open)-1]+rounding, "%v overlaps", s)
			open = append(open, s.Ts+s.Dur)
		}
	}
}

// TestTimeline: every source has the spans, in the tracks of their goroutines. A condition is about an operation as a whole.
func TestTimeline(t *testing.T) {
	eachSource(t, func(t *testing.T, source operated) {
		all := drawnBy(t, source, func(p *tracetest.Process) {
			tell(p, "requests 10")
			tell(p, "late")
			tell(p, "hostile")
			tell(p, "open 3")
			tell(p, "storm 1000")
		}, "operator:*")
		counts := map[string]int{}
		for _, e := range all {
			switch {
			case e.Ph == "M":
				counts[strings.TrimRight(e.Args["name"].(string), " 0123456789()")]++
			case e.Args["open"] == true:
				counts[e.Name+" open"]++
			default:
				require.Equal(t, "X", e.Ph)
				counts[e.Name]++
			}
			if e.Name == "operator:query" && e.Args["text"] != "slow" {
				require.GreaterOrEqual(t, e.Dur, 1000.)
				require.NotZero(t, e.Args["parent"])
			}
		}
		require.Equal(t, map[string]int{"operator:request": 1012, "operator:query": 21, "operator:request open": 3, "goroutine": counts["goroutine"], "": 1}, counts,
			"the name of the program, apart from digits, is empty")
		require.Greater(t, counts["goroutine"], 3, "each of the open ones has a lane, and two goroutines take turns")

		failed := drawnBy(t, source, func(p *tracetest.Process) { tell(p, "requests 10") }, "operator:*", "-w", "status == 500")
		failed = slices.DeleteFunc(failed, func(e traceEvent) bool { return e.Ph != "X" })
		require.Len(t, failed, 2)
		for _, e := range failed {
			require.Equal(t, []any{"operator:request", 500.}, []any{e.Name, e.Args["status"]})
		}
	})
}
