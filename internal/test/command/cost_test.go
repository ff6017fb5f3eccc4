//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// storm returns the cost of an event to the subject, which fires many: the lowest of ten
// measurements.
func storm(p *tracetest.Process) func() time.Duration {
	const fires = 50_000
	return func() time.Duration {
		least := time.Hour
		for range 10 {
			start := time.Now()
			tell(p, fmt.Sprintf("storm %d 1", fires))
			least = min(least, time.Since(start)/fires)
		}
		return least
	}
}

// requireAtMost compares the costs of an event with ours and with theirs. Because the machine does
// other things too, it repeats both and compares the lowest costs, until these are as on an idle
// machine.
func requireAtMost(t *testing.T, name string, ours, theirs func() time.Duration) {
	t.Helper()
	var first, second []time.Duration
	enough := func() bool {
		return len(first) > 0 && float64(slices.Min(first)) <= 1.2*float64(slices.Min(second))
	}
	for len(first) < 15 && !enough() {
		first, second = append(first, ours()), append(second, theirs())
	}
	t.Logf("%s: %v, beside %v", name, first, second)
	require.True(t, enough(), name)
}

// requireCheaper compares what storm returns during a command and during a script of bpftrace.
func requireCheaper(t *testing.T, p *tracetest.Process, storm func() time.Duration, command []string, script string) {
	t.Helper()
	requireAtMost(t, strings.Join(command, " "), func() time.Duration {
		tr := startTrace(t, p, command...)
		defer tr.interrupt()
		return storm()
	}, func() time.Duration {
		b := tracetest.Bpftrace(t, script, "-p", pid(p))
		defer b.Stop()
		return storm()
	})
}

// TestCostOfCounting: an event costs at most what it costs with bpftrace.
func TestCostOfCounting(t *testing.T) {
	testenv.Long(t, "it measures")
	p := startGoSubject(t)
	path := lines[listed](t, runCommand(t, "list", "-o", "json", "-p", pid(p)).stdout)[0].File
	for _, c := range []struct {
		command []string
		program string
	}{
		{[]string{"count", "-p", pid(p), "subject:tick"}, "{ @ = count(); }"},
		{[]string{"count", "-p", pid(p), "subject:tick", "--by", "arg1"}, "{ @[arg1] = count(); }"},
		{[]string{"hist", "-p", pid(p), "subject:tick", "arg0"}, "{ @ = hist(arg0); }"},
	} {
		requireCheaper(t, p, storm(p), c.command, "usdt:"+path+":subject:tick "+c.program)
	}
}

// TestCostOfExporting: a rule costs the program no more than count does.
func TestCostOfExporting(t *testing.T) {
	testenv.Long(t, "it measures")
	p := startGoSubject(t)
	for _, c := range []struct {
		rule  string
		count []string
	}{
		{"counter: 1, labels: []", nil},
		{"counter: 1, by: [arg1], labels: []", []string{"--by", "arg1"}},
		{"counter: 1, by: [arg1]", []string{"--by", "arg1,executable,cgroup"}},
	} {
		requireAtMost(t, c.rule, func() time.Duration {
			e := startExporter(t, "subject", "metrics:\n  - {name: fires_total, probe: 'PROVIDER:tick', "+c.rule+"}\n")
			require.Eventually(t, func() bool { return isTraced(t, p) }, testenv.Patience, 10*time.Millisecond)
			defer func() {
				e.Signal(os.Interrupt)
				require.NoError(t, e.Wait(testenv.Patience))
			}()
			return storm(p)()
		}, func() time.Duration {
			tr := startTrace(t, p, slices.Concat([]string{"count", "-a", "subject:tick"}, c.count)...)
			defer tr.interrupt()
			return storm(p)()
		})
	}
}

// TestCostOfIdling: a command that has attached and sees no event uses almost no processor time, as
// docs/cost.md says. It also wakes for each process that starts meanwhile, which is allowed a
// millisecond.
func TestCostOfIdling(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.Long(t, "it measures for seconds")
	const round, each = 5 * time.Second, time.Millisecond
	p := startGoSubject(t)
	e := startExporter(t, "subject", `
metrics:
  - {name: ticks_total, probe: "PROVIDER:tick", counter: 1, labels: [executable]}
`)
	for _, c := range []struct {
		name string
		most float64
		*tracetest.Process
	}{
		{"trace -p", 0.001, startTrace(t, p, "trace", "-p", pid(p), "subject:tick").Process},
		{"trace -a", 0.02, startTrace(t, p, "trace", "-a", "subject:tick").Process},
		{"export", 0.02, e.Process},
	} {
		least := 1.0
		for n := 0; n < 6 && (n == 0 || least > c.most); n++ {
			started, before := startedProcesses(t), tracetest.ProcessorTime(t, c.PID())
			time.Sleep(round)
			used := tracetest.ProcessorTime(t, c.PID()) - before - each*time.Duration(startedProcesses(t)-started)
			least = min(least, float64(used)/float64(round))
		}
		t.Logf("%s: %.2f %% of a processor", c.name, 100*least)
		require.LessOrEqual(t, least, c.most, c.name)
	}
}

// startedProcesses returns the number of processes and threads that the machine has started since
// its boot.
func startedProcesses(t *testing.T) (n int) {
	stat, err := os.ReadFile("/proc/stat")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(stat), "\nprocesses ")
	_, err = fmt.Sscan(rest, &n)
	require.NoError(t, err)
	return n
}
