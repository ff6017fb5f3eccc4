//go:build linux

package table

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"

	"github.com/stretchr/testify/require"
)

// waitingPart is what a command takes while the probes are silent and other processes start.
var waitingPart = commandPart{
	rows: []commandRow{
		{"waiting beside 25 starts a second: `trace -p`, kernel", "command waiting kernel", percent, false},
		{"waiting beside 25 starts a second: `trace -p`, socket", "command waiting socket", percent, false},
		{"waiting beside 25 starts a second: bpftrace", "command waiting bpftrace", percent, false},
	},
	start: startWaiting,
}

func percent(v float64) string { return fmt.Sprintf("%.2f %%", v) }

func startWaiting(t testing.TB, r results) func() {
	p := startPace(t)
	theirs := tracetest.Bpftrace(t, `usdt:*:live:* { printf("%d\n", arg0); }`, "-p", strconv.Itoa(p.PID()))
	waiting := map[string]int{"bpftrace": theirs.PID()}
	for _, via := range []string{"kernel", "socket"} {
		cmd := stapsdtCommand("trace", "--via", via, "-p", strconv.Itoa(p.PID()), "live:*")
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			require.NoError(t, cmd.Process.Signal(os.Interrupt))
			require.NoError(t, cmd.Wait())
		})
		waiting[via] = cmd.Process.Pid
	}
	time.Sleep(6 * time.Second) // then they look less often
	return func() {
		before, start := map[string]time.Duration{}, time.Now()
		for via, pid := range waiting {
			before[via] = threadsTime(t, pid)
		}
		for range 50 {
			require.NoError(t, exec.Command("true").Run())
			time.Sleep(40 * time.Millisecond)
		}
		for via, pid := range waiting {
			took := threadsTime(t, pid) - before[via]
			key := "command waiting " + via
			r[key] = append(r[key], 100*took.Seconds()/time.Since(start).Seconds())
		}
	}
}

// threadsTime returns the processor time of a process in nanoseconds, where its own file has hundredths of a second.
func threadsTime(t testing.TB, pid int) (sum time.Duration) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, _ := os.ReadFile(file) // fails if the thread has ended
		ran, _, _ := strings.Cut(string(text), " ")
		ns, _ := strconv.ParseInt(ran, 10, 64)
		sum += time.Duration(ns)
	}
	return sum
}

// attachingPart is what each of 1,000 probes takes that the kernel counts.
var attachingPart = commandPart{
	rows: []commandRow{
		{"a probe of 1,000 that the kernel counts: processor time", "command attach", nanoseconds, true},
		{"a probe of 1,000 that the kernel counts: elapsed time of detaching", "command detach", nanoseconds, true},
	},
	start: startAttaching,
}

func startAttaching(t testing.TB, r results) func() {
	const probes = 1000
	p := stapsdt.NewProvider("many", stapsdt.WithDir(t.TempDir()))
	t.Cleanup(func() { p.Close() })
	for i := range probes {
		_, err := p.AddProbe(fmt.Sprintf("probe%d", i), stapsdt.Uint64, stapsdt.Int32)
		require.NoError(t, err)
	}
	require.NoError(t, p.Load())
	return func() {
		cmd := stapsdtCommand("count", "-v", "--via", "kernel", "-p", strconv.Itoa(os.Getpid()), "many:*")
		stderr, err := cmd.StderrPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(stderr)
		for lines.Scan() && !strings.Contains(lines.Text(), "Ctrl-C ends") {
		}
		require.Contains(t, lines.Text(), fmt.Sprint(probes, " probes"))
		end := time.Now()
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		for lines.Scan() {
		}
		require.NoError(t, cmd.Wait())
		r["command detach"] = append(r["command detach"], float64(time.Since(end))/probes)
		used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		r["command attach"] = append(r["command attach"], float64(used)/probes)
	}
}
