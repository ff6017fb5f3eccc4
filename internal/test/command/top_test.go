//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"

	"github.com/stretchr/testify/require"
)

// screenful is a line of top -o json.
type screenful struct {
	Seconds    float64
	Operations []struct {
		Operation    string
		By           map[string]any
		Count        int
		Rate, Errors float64
		Open         int
		Longest      int64
		P50, P99     *float64
	}
	Open    int
	Unknown int `json:"end_may_be_lost"`
	Longest []struct {
		Operation      string
		Nanoseconds    int64
		PID, TID       int
		Goroutine, Key uint64
		By, Args       map[string]any
	}
	Others, Full, Before, Lost uint64
}

// lastScreen returns the last screen.
func lastScreen(t *testing.T, r result) screenful {
	t.Helper()
	all := lines[screenful](t, r.stdout)
	require.NotEmpty(t, all)
	return all[len(all)-1]
}

// TestTop: every source shows the same operations, by name and by the values of --by, and those that are open.
func TestTop(t *testing.T) {
	eachSource(t, func(t *testing.T, source operated) {
		s := lastScreen(t, source.run(t, func(p *tracetest.Process) {
			tell(p, "requests 20")
			tell(p, "open 3")
		}, "top", "-o", "json", "--by", "path,status"))
		counts := map[string]int{}
		for _, l := range s.Operations {
			counts[fmt.Sprint(l.Operation, l.By["path"], " ", l.By["status"])] = l.Count
			if l.Count > 0 {
				require.Greater(t, *l.P99, 1e6, "every operation takes a millisecond")
				require.GreaterOrEqual(t, *l.P99, *l.P50)
				require.Positive(t, l.Rate)
			} else {
				require.Nil(t, l.P50)
				require.Equal(t, 1, l.Open)
			}
			require.Equal(t, l.By["status"] == 500. || l.Operation == "operator:query", l.Errors > 0, l.Operation)
		}
		require.Equal(t, map[string]int{
			"operator:query<nil> <nil>": 40, "operator:request/0 200": 8, "operator:request/1 200": 8, "operator:request/0 500": 2, "operator:request/1 500": 2,
			"operator:request/open/0 <nil>": 0, "operator:request/open/1 <nil>": 0, "operator:request/open/2 <nil>": 0,
		}, counts)
		require.Equal(t, 3, s.Open)
		require.Len(t, s.Longest, 3)
		for i, o := range s.Longest {
			require.Equal(t, "/open/"+string(rune('0'+i)), o.By["path"], "the oldest is the first")
			require.NotZero(t, o.Key)
			require.NotZero(t, o.PID)
			require.NotZero(t, o.Goroutine)
		}
		require.Zero(t, s.Lost+s.Others+s.Full+s.Before)
	})
}

// TestTopText: what is for people fits into 80 columns, whatever texts a program has.
func TestTopText(t *testing.T) {
	eachSource(t, func(t *testing.T, source operated) {
		r := source.run(t, func(p *tracetest.Process) {
			tell(p, "requests 5")
			tell(p, "hostile")
			tell(p, "open 12")
		}, "top", "--by", "path")
		require.Regexp(t, `(?m)^RATE/S  OPEN  ERR/S +P50 +P99  LONGEST  OPERATION +path$`, r.stdout)
		require.Regexp(t, `(?m)^ +\S+ +0 +0 .+ms  .+ms +-  operator:request  "/1"$`, r.stdout)
		require.Regexp(t, `(?m)^OPEN FOR +PID +GOROUTINE  OPERATION +ARGUMENTS$`, r.stdout)
		require.Regexp(t, `(?m)^ +\d+\S+ +\d+ +\d+  operator:request(?: \d+)?  path="/open/0"$`, r.stdout)
		require.Equal(t, source.name != "recording", strings.Contains(r.stdout, "and 2 more\n"), "of a recording, all are shown")
		require.Contains(t, r.stdout, `"/\x1b[2J`)
		for line := range strings.Lines(r.stdout) {
			line = strings.TrimSuffix(line, "\n")
			require.LessOrEqual(t, utf8.RuneCountInString(line), 80, line)
			require.True(t, strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) < 0, "%q", line)
		}
	})
}

// TestTopStorm: what comes too fast is counted as lost, or it is all there.
func TestTopStorm(t *testing.T) {
	const all, open = 50_000, 10_000
	eachSource(t, func(t *testing.T, source operated) {
		s := lastScreen(t, source.run(t, func(p *tracetest.Process) {
			tell(p, "open 10000")
			tell(p, "storm 50000")
		}, "top", "operator:request", "-o", "json"))
		require.Len(t, s.Operations, 1)
		t.Logf("%d ended, %d open, %d with an end that may be lost, %d events lost, %d without a start", s.Operations[0].Count, s.Open, s.Unknown, s.Lost, s.Before)
		if s.Lost == 0 {
			require.Equal(t, []int{all, open}, []int{s.Operations[0].Count, s.Open})
		}
		fired := uint64(2*all + open)
		seen := uint64(2*s.Operations[0].Count+s.Open+s.Unknown) + s.Before
		require.LessOrEqual(t, seen, fired)
		require.GreaterOrEqual(t, seen+s.Lost+s.Full, fired, "what is not shown is counted")
		require.Len(t, s.Longest, min(s.Open+s.Unknown, 1000))
	})
}
