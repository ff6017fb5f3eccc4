//go:build linux && (amd64 || arm64)

package command_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

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
	text := tracetest.Must(os.ReadFile(file))(t)
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

// TestCTF: babeltrace2 reads all events of every source, with their times and values.
func TestCTF(t *testing.T) {
	t.Parallel()
	babeltrace := testenv.NeedsTool(t, "babeltrace2", "babeltrace2")
	for _, source := range sources() {
		t.Run(source.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "trace")
			source.run(t, func(p *tracetest.Process) {
				tell(p, "requests 5")
				tell(p, "hostile")
				tell(p, "storm 5000")
			}, "trace", "operator:*", "-o", "ctf", "-O", dir)
			out := runTool(t, exec.Command(babeltrace, "--clock-seconds", dir))
			text := string(out)
			require.Equal(t, 5+1+5000, strings.Count(text, " operator:request__end: "))
			require.Equal(t, 10, strings.Count(text, " operator:query__start: "))
			require.Regexp(t, `(?m)^\[\d+\.\d{9}\] \(\+\?\.\?{9}\) operator:request__start: \{ pid = \d+, tid = \d+, goroutine = \d+, procname = "\d*" \}, \{ id = 1, parent = 0, path = "/0" \}$`, text)
			require.Regexp(t, `operator:request__end: .* \{ id = \d+, parent = 0, nanoseconds = \d+, error = "no such table", status = 500 \}`, text)
			require.Contains(t, text, "forged")
		})
	}
}

// TestCTFSelection: -w and -n select events, and what exists is not overwritten.
func TestCTFSelection(t *testing.T) {
	t.Parallel()
	babeltrace := testenv.NeedsTool(t, "babeltrace2", "babeltrace2")
	file := filepath.Join(t.TempDir(), "operator.rec")
	tell(startOperator(t, file), "requests 10")
	run := func(dir string, args ...string) result {
		return runCommand(t, append([]string{"trace", "--from", file, "-o", "ctf", "-O", dir}, args...)...)
	}
	dir := filepath.Join(t.TempDir(), "trace")
	require.Contains(t, run(dir, "-w", "status == 500").stderr, "wrote 2 events to "+dir+": read it with babeltrace2")
	require.Equal(t, 1, run(dir).status, "it exists")
	few, none := dir+".few", dir+".none"
	require.Contains(t, run(few, "-n", "7").stderr, "wrote 7 events")
	require.Contains(t, run(none, "-w", "status == 404").stderr, "wrote 0 events")
	for path, want := range map[string]int{dir: 2, few: 7, none: 0} {
		out := runTool(t, exec.Command(babeltrace, path))
		require.Equal(t, want, strings.Count(string(out), "operator:"), "%s", out)
	}
	out := runTool(t, exec.Command(babeltrace, dir, few))
	require.Equal(t, 2+7, strings.Count(string(out), "operator:"), "both traces have one clock")
	for _, args := range [][]string{{"-O", ""}, {"-O", "-"}, {"-w", "1 +"}, {"--show", "pid"}, {"-w", "nothing == 1"}} {
		require.Equal(t, 2, run(dir+".refused", args...).status, args)
		require.NoDirExists(t, dir+".refused")
	}
	require.NoFileExists(t, "-")
}
