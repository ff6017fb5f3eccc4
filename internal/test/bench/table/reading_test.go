//go:build linux

package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// readingPart is what an event costs a reader of the socket.
var readingPart = commandPart{
	rows: []commandRow{
		{"an event by the socket: `count`", "command count", nanoseconds, true},
		{"an event by the socket: `hist`", "command hist", nanoseconds, true},
		{"an event by the socket: `hist --by`", "command histby", nanoseconds, true},
	},
	start: startReading,
}

// startPace starts a program that fires when it is told to. Its images are in a directory of its own: other programs would be traced
// by the same file.
func startPace(t testing.TB) *tracetest.Process {
	dir, err := os.MkdirTemp(*images, "")
	require.NoError(t, err)
	cmd := exec.Command(filepath.Join(*work, "subject-live"), "pace")
	cmd.Env = append(os.Environ(), "STAPSDT_DIR="+dir)
	p := tracetest.Command(t, cmd)
	p.Expect("ready", testenv.Patience)
	return p
}

// watchedLive starts a program that fires, and a command that watches it by its socket until it has
// fired. It returns the command's processor time in nanoseconds. The program fires for no second
// command: it could begin while the first still ends.
func watchedLive(t testing.TB, fire string, stdout, stderr io.Writer, args ...string) float64 {
	p := startPace(t)
	cmd := stapsdtCommand(append(args, "--via", "socket", "-p", strconv.Itoa(p.PID()))...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	require.NoError(t, cmd.Start())
	p.Say(fire)
	p.Expect("fired ", testenv.Patience)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait())
	p.Hangup()
	require.NoError(t, p.Wait(testenv.Patience))
	return float64(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime())
}

func startReading(t testing.TB, r results) func() {
	return func() {
		for key, args := range map[string][]string{
			"count": {"count", "live:two"}, "hist": {"hist", "live:two", "status"}, "histby": {"hist", "live:two", "id", "--by", "status % 8"},
		} {
			r["command "+key] = append(r["command "+key], countedLive(t, args...))
		}
	}
}

// countedLive returns the processor time of a command for each event of a program that fires at a steady rate, in nanoseconds. The
// command, which sums them up as JSON, must have seen or lost each.
func countedLive(t testing.TB, args ...string) float64 {
	const fires = 10_000_000
	var out bytes.Buffer
	used := watchedLive(t, fmt.Sprint("fire 1 5000 ", fires), &out, io.Discard, append(args, "-o", "json")...)
	var events uint64
	for in := json.NewDecoder(&out); in.More(); {
		var row struct{ Count, Lost uint64 }
		require.NoError(t, in.Decode(&row))
		events += row.Count + row.Lost
	}
	require.EqualValues(t, fires, events)
	return used / fires
}
