//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// uneven is a program that calls one function all the time, and another one now and then.
const uneven = `package main

import "time"

var sink int

//go:noinline
func leaf(n int) int { return n*3 + 1 }

//go:noinline
func hot(n int) int { return leaf(n) + leaf(n+1) }

//go:noinline
func rare(d time.Duration) { time.Sleep(d) }

func main() {
	for {
		for n := range 1_000_000 {
			sink += hot(n)
		}
		rare(time.Millisecond)
	}
}
`

// budgeted is what a run with --budget has said.
type budgeted struct {
	counts, since map[string]int // by probe, and those since the last one was detached from
	detached      []string
	at            time.Time
	cost          float64
	said          string
}

// runBudgeted runs a command on a process until it ends or has said enough.
func runBudgeted(t *testing.T, pid int, enough func(b budgeted) bool, args ...string) (b budgeted) {
	t.Helper()
	cmd := tracetest.Command(t, exec.Command(stapsdt(t), append(args, "-o", "json", "-p", fmt.Sprint(pid))...))
	require.Eventually(t, func() bool {
		b = parseBudgeted(t, cmd.Lines())
		return enough != nil && enough(b) || cmd.Ended()
	}, testenv.Patience, 10*time.Millisecond, "%s", cmd.Dump())
	cmd.Signal(syscall.SIGINT)
	require.NoError(t, cmd.Wait(testenv.Patience), cmd.Dump())
	b = parseBudgeted(t, cmd.Lines())
	b.said = cmd.Dump()
	t.Logf("%v", b)
	return b
}

func parseBudgeted(t *testing.T, lines []string) (b budgeted) {
	t.Helper()
	b.counts, b.since = map[string]int{}, map[string]int{}
	for _, line := range lines {
		var row struct {
			Time     time.Time
			Probe    string
			Count    int
			Detached []string
			Cost     float64
		}
		require.NoError(t, json.Unmarshal([]byte(line), &row), line)
		if row.Detached != nil {
			b.detached, b.at, b.cost = append(b.detached, row.Detached...), row.Time, row.Cost
			clear(b.since)
			continue
		}
		n := max(row.Count, 1) // lines of trace have no count
		b.counts[row.Probe] += n
		b.since[row.Probe] += n
	}
	return b
}

// TestBudget: the function that is called all the time is detached from, and stays so. The other one
// is not. If nothing is left, the command ends.
func TestBudget(t *testing.T) {
	testenv.NeedsRoot(t)
	program := exec.Command(build(t, uneven, nil))
	require.NoError(t, program.Start())
	defer func() { program.Process.Kill(); program.Wait() }()
	pid := program.Process.Pid

	for _, verb := range []string{"count", "trace"} {
		t.Run(verb, func(t *testing.T) {
			first := make(chan time.Time, 1)
			hot := siteOf(t, pid, "main.hot")
			go func() {
				for began := time.Now(); !hot() && time.Since(began) < testenv.Patience; {
					time.Sleep(time.Millisecond)
				}
				first <- time.Now()
			}()
			args := []string{verb, "go:main.hot", "go:main.hot:return", "go:main.rare", "--budget", "1%"}
			if verb == "count" {
				args = append(args, "-i", "100ms")
			}
			b := runBudgeted(t, pid, func(b budgeted) bool { return len(b.detached) > 0 && b.since["main.rare"] > 5 }, args...)
			assert.Equal(t, []string{"go:main.hot", "go:main.hot:return"}, b.detached)
			t.Run("time", func(t *testing.T) {
				testenv.Measures(t, "time")
				testenv.Figure(t, "detached after", b.at.Sub(<-first).Seconds(), 1, "s")
			})
			assert.Greater(t, b.cost, 0.01)
			assert.Contains(t, b.said, "detached from go:main.hot, because the probes took ")
			assert.Contains(t, b.said, "and --budget allows 1 %")
			assert.Positive(t, b.counts["main.hot"])
			assert.False(t, hot())
		})
	}
	t.Run("nothing is left", func(t *testing.T) {
		b := runBudgeted(t, pid, nil, "latency", "go:main.hot", "--budget", "1%", "-d", "1h")
		assert.Equal(t, []string{"go:main.hot", "go:main.hot:return"}, b.detached)
	})
	t.Run("affordable", func(t *testing.T) {
		b := runBudgeted(t, pid, func(b budgeted) bool { return b.counts["main.rare"] > 50 }, "count", "go:main.rare", "--budget", "20%", "-i", "100ms")
		assert.Empty(t, b.detached)
		assert.Contains(t, b.said, "the probes took ")
	})
}

// siteOf returns a function that reports whether the kernel has put a breakpoint where the calls of a function are seen.
func siteOf(t testing.TB, pid int, name string) func() bool {
	out, err := exec.Command(stapsdt(t), "list", "-o", "json", "-p", fmt.Sprint(pid), "go:"+name).Output()
	require.NoError(t, err)
	var fn struct{ Offset uint64 }
	require.NoError(t, json.Unmarshal(out, &fn))
	const start = 0x400000 // of a program that is not a PIE
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	require.NoError(t, err)
	t.Cleanup(func() { memory.Close() })
	return func() bool {
		var b [4]byte
		_, err := memory.ReadAt(b[:], int64(start+fn.Offset))
		return err == nil && isBreakpoint(b)
	}
}
