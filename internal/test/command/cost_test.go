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

// storm returns the cost of an event to the subject, which fires many: the lowest of five
// measurements.
func storm(p *tracetest.Process) func() time.Duration {
	const fires = 50_000
	return func() time.Duration {
		least := time.Hour
		for range 5 {
			start := time.Now()
			tell(p, fmt.Sprintf("storm %d 1", fires))
			least = min(least, time.Since(start)/fires)
		}
		return least
	}
}

// compare records the cost of an event beside theirs, each the lower of two measurements in turn.
func compare(t *testing.T, name string, ours, theirs func() time.Duration) {
	t.Helper()
	var first, second []time.Duration
	for range 2 {
		first, second = append(first, ours()), append(second, theirs())
	}
	t.Logf("%s: %v, beside %v", name, first, second)
	testenv.Figure(t, name, float64(slices.Min(first))/float64(slices.Min(second)), 1.1, "times as much")
}

// compareWithBpftrace compares what storm returns during a command and during a script of bpftrace.
func compareWithBpftrace(t *testing.T, p *tracetest.Process, storm func() time.Duration, command []string, script string) {
	t.Helper()
	compare(t, strings.Join(command, " "), func() time.Duration {
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
	testenv.Measures(t, "the cost of an event")
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
		compareWithBpftrace(t, p, storm(p), c.command, "usdt:"+path+":subject:tick "+c.program)
	}
}

// TestCostOfExporting: a rule costs the program no more than count does.
func TestCostOfExporting(t *testing.T) {
	testenv.Measures(t, "the cost of an event")
	p := startGoSubject(t)
	for _, c := range []struct {
		rule  string
		count []string
	}{
		{"counter: 1, labels: []", nil},
		{"counter: 1, by: [arg1], labels: []", []string{"--by", "arg1"}},
		{"counter: 1, by: [arg1]", []string{"--by", "arg1,executable,cgroup"}},
	} {
		compare(t, c.rule, func() time.Duration {
			e := startExporter(t, "subject", "metrics:\n  - {name: fires_total, probe: 'PROVIDER:tick', "+c.rule+"}\n")
			require.Eventually(t, func() bool { return isTraced(p) }, testenv.Patience, 10*time.Millisecond)
			defer func() {
				interrupt(t, e)
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
// docs/cost.md says.
func TestCostOfIdling(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.Measures(t, "processor time")
	const round = 3 * time.Second
	p := startGoSubject(t)
	e := startExporter(t, "subject", `
metrics:
  - {name: ticks_total, probe: "PROVIDER:tick", counter: 1, labels: [executable]}
`)
	for _, c := range []struct {
		name  string
		most  float64       // per cent
		start time.Duration // what the start of another process may cost
		*tracetest.Process
	}{
		{"trace -p", 0.1, 100 * time.Microsecond, startTrace(t, p, "trace", "-p", pid(p), "subject:tick").Process},
		{"trace -a", 2, time.Millisecond, startTrace(t, p, "trace", "-a", "subject:tick").Process},
		{"export", 2, time.Millisecond, e.Process},
	} {
		least := round
		for range 2 {
			before, started := tracetest.ProcessorTime(t, c.PID()), startedProcesses(t)
			time.Sleep(round)
			took := tracetest.ProcessorTime(t, c.PID()) - before
			least = min(least, max(0, took-time.Duration(startedProcesses(t)-started)*c.start))
		}
		testenv.Figure(t, c.name, 100*float64(least)/float64(round), c.most, "% of a processor")
	}
}

// startedProcesses returns how many processes and threads the machine has started.
func startedProcesses(t *testing.T) (n int) {
	t.Helper()
	stat := tracetest.Must(os.ReadFile("/proc/stat"))(t)
	_, after, found := strings.Cut(string(stat), "\nprocesses ")
	require.True(t, found)
	_ = tracetest.Must(fmt.Sscan(after, &n))(t)
	return n
}
