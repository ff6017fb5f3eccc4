//go:build linux

package table

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// recordingPart is what an event takes that the command records, of a thread and of two at a time.
var recordingPart = commandPart{
	rows: []commandRow{
		{"an event by the socket: `record`", "command record", nanoseconds, true},
		{"an event by the socket: `record`, of two threads", "command recordtogether", nanoseconds, true},
	},
	start: func(t testing.TB, r results) func() {
		return func() {
			for key, threads := range map[string]int{"record": 1, "recordtogether": 2} {
				r["command "+key] = append(r["command "+key], recordedLive(t, threads))
			}
		}
	},
}

// recordedCount finds the numbers of events in what record reports.
var recordedCount = regexp.MustCompile(`recorded (\d+) events|(\d+) other events were lost`)

// recordedLive returns the processor time of record for each event that it records of a program that fires five million
// events a second, in nanoseconds. Each event must be recorded or lost.
func recordedLive(t testing.TB, threads int) float64 {
	const fires = 10_000_000
	file := filepath.Join(*work, "recorded")
	defer os.Remove(file)
	var out bytes.Buffer
	fire := fmt.Sprint("fire ", threads, " ", 5000/threads, " ", fires)
	used := watchedLive(t, fire, io.Discard, &out, "record", "live:two", "-O", file)
	var counts [2]int
	for _, found := range recordedCount.FindAllStringSubmatch(out.String(), -1) {
		for i := range counts {
			n, _ := strconv.Atoi(found[1+i])
			counts[i] += n
		}
	}
	require.Equal(t, fires, counts[0]+counts[1], out.String())
	return used / float64(counts[0])
}
