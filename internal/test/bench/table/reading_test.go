//go:build linux

package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

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

// startPacer starts a program that fires for one command. For a second one, it could begin while the
// first still ends.
func startPacer(t testing.TB) *tracetest.Process {
	p := tracetest.Command(t, exec.Command(filepath.Join(*work, "subject-live"), "pace"))
	p.Expect("ready", testenv.Patience)
	return p
}

// endPacer ends the program.
func endPacer(t testing.TB, p *tracetest.Process) {
	p.Hangup()
	require.NoError(t, p.Wait(testenv.Patience))
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
	p := startPacer(t)
	defer endPacer(t, p)
	const fires = 10_000_000
	cmd := stapsdtCommand(append(args, "-o", "json", "--via", "socket", "-p", strconv.Itoa(p.PID()))...)
	var out bytes.Buffer
	cmd.Stdout = &out
	require.NoError(t, cmd.Start())
	p.Say(fmt.Sprint("fire 1 5000 ", fires))
	p.Expect("fired ", testenv.Patience)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait())
	var events uint64
	for in := json.NewDecoder(&out); in.More(); {
		var row struct{ Count, Lost uint64 }
		require.NoError(t, in.Decode(&row))
		events += row.Count + row.Lost
	}
	require.EqualValues(t, fires, events)
	return float64((cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())/time.Nanosecond) / fires
}
