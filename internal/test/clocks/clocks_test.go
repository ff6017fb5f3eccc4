//go:build linux && amd64

// Package clocks compares what programs record with what they have fired, by each clock that a recording can have.
package clocks

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { tracetest.BuildMain(m) }

const goroutines = 64

// TestStorm: 64 goroutines that fire at once lose nothing, in a file and by the socket, whatever the kernel's clock is. Each event is whole, those of a
// goroutine are in their order, and so are those that follow one another from goroutine to goroutine.
func TestStorm(t *testing.T) {
	for source, clock := range map[string]recording.ClockKind{"tsc": recording.Counter, "kvm-clock": recording.Monotonic} {
		t.Run(source, func(t *testing.T) {
			for _, cgo := range []string{"0", "1"} {
				stormOf(t, source, clock, cgo)
			}
		})
	}
}

func stormOf(t *testing.T, source string, clock recording.ClockKind, cgo string) {
	const burst = 3000 // as many of each goroutine as a watcher's memory has room for
	// A larger recording takes longer to reserve and to read, and may be more than there is room for.
	each, size := burst, "64M"
	if !testing.Short() {
		each, size = 100_000, "1G"
	}
	start := func(variable string, each int) (program *tracetest.Process) {
		cmd := exec.Command(tracetest.Build(t, "./storm", "CGO_ENABLED="+cgo), strconv.Itoa(goroutines), strconv.Itoa(each))
		cmd.Env = append(os.Environ(), variable)
		tracetest.ClockSource(t, cmd, source)
		program = tracetest.Command(t, cmd)
		program.Expect("ready", testenv.Patience)
		return program
	}
	ended := func(program *tracetest.Process) (fired int) {
		t.Helper()
		fired = tracetest.Must(strconv.Atoi(program.Expect("fired ", testenv.Patience)))(t)
		require.NoError(t, program.Wait(testenv.Patience))
		return fired
	}

	path := filepath.Join(t.TempDir(), "filed.rec")
	fired := ended(start("STAPSDT_RECORD="+path+","+size, each))
	require.Equal(t, fired, check(t, path, clock, uint64(each)))

	path = filepath.Join(t.TempDir(), "watched.rec")
	program := start("STAPSDT_SOCKET=1", burst)
	record := tracetest.Command(t, exec.Command(tracetest.Stapsdt(t), "record", "-p", strconv.Itoa(program.PID()),
		"--via", "socket", "--size", size, "-O", path, "storm:*"))
	fired = ended(program)
	require.NoError(t, record.Wait(testenv.Patience))
	require.Equal(t, fired, check(t, path, recording.Monotonic, burst))
}

// check requires that a recording has each event, and returns their number.
func check(t *testing.T, path string, clock recording.ClockKind, each uint64) (seen int) {
	t.Helper()
	f := tracetest.Must(os.Open(path))(t)
	defer f.Close()
	r := eventtest.Read(t, f)
	require.Equal(t, clock, r.Head().Clock)
	next, token := map[uint64]uint64{}, uint64(0)
	letters := strings.Repeat("abcdefghijklmnopqrstuvwxyz", 2)
	for e := range eventtest.Events(t, r) {
		seen++
		if e.Probe.Name == "token" {
			// By the counter, events of different threads that are less than a microsecond apart may change places.
			if clock == recording.Monotonic {
				require.Equal(t, token, e.Word(0))
			}
			token++
			continue
		}
		g, n := e.Word(0), e.Word(1)
		require.Equal(t, next[g], n, "goroutine %d", g)
		require.Equal(t, (g<<60^n)*0x9e3779b97f4a7c15, e.Word(2))
		require.Equal(t, letters[:n%26], string(e.Text(3)))
		next[g]++
	}
	require.Zero(t, r.Lost(), path)
	require.Len(t, next, goroutines)
	for g, n := range next {
		require.Equal(t, each, n, "goroutine %d", g)
	}
	return seen
}
