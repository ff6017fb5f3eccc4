//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

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
	counts   map[string]int // by probe
	detached []string
	at       time.Time
	cost     float64
	said     string
	took     time.Duration
}

// runBudgeted runs a command on a process.
func runBudgeted(t *testing.T, pid int, args ...string) (b budgeted) {
	t.Helper()
	cmd := exec.Command(stapsdt(t), append(args, "-o", "json", "-p", fmt.Sprint(pid))...)
	var said strings.Builder
	cmd.Stderr = &said
	began := time.Now()
	out, err := cmd.Output()
	require.NoError(t, err, said.String())
	b.counts, b.said, b.took = map[string]int{}, said.String(), time.Since(began)
	for line := range strings.Lines(string(out)) {
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
			continue
		}
		b.counts[row.Probe] += max(row.Count, 1) // lines of trace have no count
	}
	t.Logf("%v", b)
	return b
}

// TestBudget: the function that is called all the time is detached from within a second, and stays so. The other one
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
			b := runBudgeted(t, pid, verb, "go:main.hot", "go:main.hot:return", "go:main.rare", "--budget", "1%", "-d", "1500ms")
			assert.Equal(t, []string{"go:main.hot", "go:main.hot:return"}, b.detached)
			assert.Less(t, b.at.Sub(<-first), time.Second)
			assert.Greater(t, b.cost, 0.01)
			assert.Contains(t, b.said, "detached from go:main.hot, because the probes took ")
			assert.Contains(t, b.said, "and --budget allows 1 %")
			assert.Positive(t, b.counts["main.hot"])
			assert.Greater(t, b.counts["main.rare"], 5, "it is not counted any more")
			assert.False(t, hot())
		})
	}
	t.Run("nothing is left", func(t *testing.T) {
		b := runBudgeted(t, pid, "latency", "go:main.hot", "--budget", "1%", "-d", "1m")
		assert.Equal(t, []string{"go:main.hot", "go:main.hot:return"}, b.detached)
		assert.Less(t, b.took, 30*time.Second)
	})
	t.Run("affordable", func(t *testing.T) {
		b := runBudgeted(t, pid, "count", "go:main.rare", "--budget", "20%", "-d", "1s")
		assert.Empty(t, b.detached)
		assert.Greater(t, b.counts["main.rare"], 5)
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
