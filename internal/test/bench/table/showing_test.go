//go:build linux

package table

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// showingPart is what the line of an event takes.
var showingPart = commandPart{
	rows: []commandRow{
		{"the line of an event by the socket: `trace`", "command trace", nanoseconds, true},
		{"the line of an event by the socket: `trace -o json`", "command tracejson", nanoseconds, true},
	},
	start: startShowing,
}

func startShowing(t testing.TB, r results) func() {
	return func() {
		for key, format := range map[string]string{"trace": "text", "tracejson": "json"} {
			r["command "+key] = append(r["command "+key], shownLive(t, format))
		}
	}
}

// lineCount counts the lines that are written to it.
type lineCount int

func (n *lineCount) Write(b []byte) (int, error) {
	*n += lineCount(bytes.Count(b, []byte("\n")))
	return len(b), nil
}

var lostEvents = regexp.MustCompile(`(\d+) events were lost`)

// shownLive returns the processor time of a trace for each event that it shows of a program that fires at a steady rate, in
// nanoseconds. It must have shown or lost each.
func shownLive(t testing.TB, format string) float64 {
	const fires = 2_000_000
	var lines lineCount
	var warnings bytes.Buffer
	used := watchedLive(t, fmt.Sprint("fire 1 1000 ", fires), &lines, &warnings, "trace", "live:two", "-o", format)
	lost := 0
	for _, m := range lostEvents.FindAllSubmatch(warnings.Bytes(), -1) {
		n, err := strconv.Atoi(string(m[1]))
		require.NoError(t, err)
		lost += n
	}
	shown := int(lines)
	if format == "text" || lost > 0 { // without the titles, or the object of the lost events
		shown--
	}
	require.Equal(t, fires, shown+lost, "%s", &warnings)
	return used / float64(shown)
}
