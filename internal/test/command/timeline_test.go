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

// drawnBy returns what trace -o chrome writes of what a program does.
func drawnBy(t *testing.T, source operated, act func(*tracetest.Process), args ...string) (all traceFile) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "timeline.json")
	source.run(t, act, append([]string{"trace", "-o", "chrome", "-O", file}, args...)...)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &all))
	require.Equal(t, "ns", all.DisplayTimeUnit)
	require.Zero(t, all.OtherData.LostEvents)
	checkTracks(t, all.TraceEvents)
	return all
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

// TestChrome: every source has the spans, in the tracks of their goroutines.
func TestChrome(t *testing.T) {
	t.Parallel()
	for _, source := range sources() {
		t.Run(source.name, func(t *testing.T) {
			all := drawnBy(t, source, func(p *tracetest.Process) {
				tell(p, "requests 10")
				tell(p, "late")
				tell(p, "hostile")
				tell(p, "open 3")
				tell(p, "storm 1000")
			}, "operator:*")
			counts := map[string]int{}
			for _, e := range all.TraceEvents {
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
		})
	}
}

// TestChromeSelection: a condition is about an operation as a whole, and an end that has no start is an event.
func TestChromeSelection(t *testing.T) {
	t.Parallel()
	for _, source := range sources() {
		t.Run(source.name, func(t *testing.T) {
			all := drawnBy(t, source, func(p *tracetest.Process) { tell(p, "requests 10") }, "operator:*", "-w", "status == 500")
			spans := 0
			for _, e := range all.TraceEvents {
				if e.Ph == "X" {
					spans++
					require.Equal(t, "operator:request", e.Name)
					require.Equal(t, 500., e.Args["status"])
				}
			}
			require.Equal(t, 2, spans)
		})
	}
}

// TestChromeRefuses: what cannot be is said before a file is made.
func TestChromeRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "timeline.json")
	for _, args := range [][]string{
		{"-a", "*:*"}, {"-a", "*:*", "-O", file, "--show", "pid"}, {"http://localhost/debug/probes/", "-O", file}, {"-a", "*:*", "-O", file, "-w", "1 +"},
	} {
		r := runCommand(t, append([]string{"trace", "-o", "chrome"}, args...)...)
		require.Equal(t, 2, r.status, args)
		require.NoFileExists(t, file)
	}
	require.Equal(t, 2, runCommand(t, "trace", "-a", "*:*", "-O", file).status, "a file without -o chrome")
}
