//go:build linux && (amd64 || arm64)

package command_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/cilium/ebpf/features"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// counted is a line of count or hist with -o json.
type counted struct {
	Time                         time.Time
	Provider, Probe              string
	By                           map[string]any
	Count                        int
	Average, P50, P90, P99, P999 float64
	Buckets                      []struct {
		Low, High *float64
		Count     int
	}
}

// stopCounting interrupts the command, and returns what it counted.
func (tr *tracer) stopCounting() []counted {
	tr.t.Helper()
	tr.interrupt()
	return lines[counted](tr.t, strings.Join(tr.Lines(), "\n"))
}

// TestCount: each event is counted once, by its probe.
func TestCount(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--single"}} {
		p, _ := startCSubject(t)
		tr := startTrace(t, p, slices.Concat([]string{"count", "-p", pid(p), "csubject:*"}, flags)...)
		tell(p, "fire 5")
		tell(p, "fork 1")
		interrupt(t, tr)
		// Of work, two sites were fired, whose operands differ.
		require.Equal(t, []string{"COUNT  PROBE", "    8  csubject:work", "    6  csubject:other"}, tr.Lines())
	}
}

func TestCountBy(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t)
	tr := startTrace(t, p, "count", "-o", "json", "-p", pid(p), "subject:request__done", "-w", "status != 3",
		"--by", "status, cached, strings.HasSuffix(path, \"3\")", "--by", "path,comm,pid,elapsed/(20*time.Millisecond)")
	tell(p, "fire 50")
	rows := tr.stopCounting()
	got := map[string]int{}
	for _, r := range rows {
		by := r.By
		require.NotEmpty(t, by["comm"])
		require.EqualValues(t, p.PID(), by["pid"])
		got[fmt.Sprint(by["status"], by["cached"], by[`strings.HasSuffix(path, "3")`], by["path"], by["elapsed/(20*time.Millisecond)"])] += r.Count
	}
	want := map[string]int{}
	for i := range 50 {
		path := fmt.Sprintf("/item/%d", i)
		if status := i%7 - 3; status != 3 {
			want[fmt.Sprint(status, i%2 == 0, strings.HasSuffix(path, "3"), path, i/20)]++
		}
	}
	require.Equal(t, want, got)
}

// TestCountExactly: while several threads fire as fast as they can, the numbers grow from
// interval to interval, and at the end they are those of the fires.
func TestCountExactly(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t)
	tr := startTrace(t, p, "count", "-o", "json", "-p", pid(p), "subject:tick", "--by", "arg1,arg0%3", "-i", "10ms")
	const each = 30_000
	tell(p, fmt.Sprintf("storm %d 4", each))
	rows := tr.stopCounting()
	last := map[string]int{}
	for _, r := range rows {
		key := fmt.Sprint(r.By["arg1"], r.By["arg0%3"])
		require.GreaterOrEqual(t, r.Count, last[key])
		last[key] = r.Count
	}
	require.Len(t, last, 12)
	for key, n := range last {
		require.Equal(t, each/3, n, key)
	}
}

// TestCountTooMany: events whose keys have no room are reported as lost.
func TestCountTooMany(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t)
	tr := startTrace(t, p, "count", "-o", "json", "-p", pid(p), "subject:tick", "--by", "arg0")
	tell(p, "storm 20000 1")
	sum := 0
	for _, r := range tr.stopCounting() {
		sum += r.Count
	}
	require.Greater(t, sum, 10000)
	require.Contains(t, tr.Dump(), "events were lost, because there are too many different values of --by")
	require.Equal(t, 20000, sum+tr.lost())
}

func TestCountInterval(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t)
	tr := startTrace(t, p, "count", "-p", pid(p), "subject:tick", "-i", "100ms")
	tr.WaitLine("no events", testenv.Patience)
	tell(p, "storm 1000 1")
	tr.WaitLine(" 1000  ", testenv.Patience)
	require.Regexp(t, `^ *COUNT  PER SECOND  PROBE$`, tr.WaitLine("COUNT", testenv.Patience))
	tr.interrupt()
}

// isAttached reports whether a command is attached to a site. Its other links follow processes and signals, or find out what the
// kernel has.
func isAttached(tr *tracer) bool {
	kind := "uprobe_multi"
	if features.HaveBPFLinkUprobeMulti() != nil {
		kind = "perf"
	}
	out, _ := exec.Command("grep", "-hs", "link_type", "-r", fmt.Sprintf("/proc/%d/fdinfo", tr.PID())).Output()
	return strings.Contains(string(out), kind)
}

// TestCountByProcess: events are counted by the process that fires, also by the name of its
// program's file.
func TestCountByProcess(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t)
	path := tracetest.Must(os.Readlink("/proc/" + pid(p) + "/exe"))(t)
	name := filepath.Base(path)
	tr := startTrace(t, p, "count", "-o", "json", "-p", pid(p), "subject:request__done", "--by", "executable, uid, cgroup, comm",
		"-w", fmt.Sprintf("executable == %q && uid == %d && strings.HasPrefix(executable, %q) && len(executable) == %d", name, os.Getuid(), name[:1], len(name)))
	tell(p, "fire 10")
	rows := tr.stopCounting()
	require.Len(t, rows, 1)
	require.Equal(t, 10, rows[0].Count)
	require.Equal(t, name, rows[0].By["executable"])
	require.EqualValues(t, os.Getuid(), rows[0].By["uid"])
	group := tracetest.Must(os.Stat(testenv.NeedsGroups(t) + cgroupOf(t, p)))(t)
	require.EqualValues(t, group.Sys().(*syscall.Stat_t).Ino, rows[0].By["cgroup"])

	tr = startTrace(t, p, "trace", "-o", "json", "-p", pid(p), "subject:request__done", "-n", "1", "--show", "executable", "--strlen", "8")
	tell(p, "fire 1")
	require.NoError(t, tr.Wait(testenv.Patience))
	require.Contains(t, tr.Lines()[0], `"executable":"`+name[:min(8, len(name))])
}

// TestLargeValues: the sums and averages of the kernel are right for the largest numbers, whose sums have more than 64 bits.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	const fires = 50
	type row struct {
		Sum     json.Number
		Average float64
	}
	for value, first := range map[string]string{ // of which the i-th is that of the first, and i milliseconds
		"elapsed + 2562047h47m16s": "9223372036000000000", "elapsed - 2562047h47m16s": "-9223372036000000000",
	} {
		start, _ := new(big.Int).SetString(first, 10)
		want := new(big.Int).Mul(start, big.NewInt(fires))
		want.Add(want, big.NewInt(fires*(fires-1)/2*int64(time.Millisecond)))
		average, _ := new(big.Rat).SetFrac(want, big.NewInt(fires)).Float64()
		output := func(args ...string) row {
			p := startGoSubject(t)
			tr := startTrace(t, p, append(args, "-p", pid(p), "-o", "json")...)
			tell(p, fmt.Sprintf("fire %d", fires))
			tr.interrupt()
			all := lines[row](t, strings.Join(tr.Lines(), "\n"))
			require.Len(t, all, 1)
			return all[0]
		}
		require.Equal(t, want.String(), output("count", "subject:request__done", "--sum", value).Sum.String(), value)
		require.InEpsilon(t, average, output("hist", "subject:request__done", value).Average, 1e-15, value)
	}
}

// TestTimeNamespace: events have the time of day, although the kernel's clock is not that of the tracer's time namespace.
func TestTimeNamespace(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	testenv.NeedsNamespaces(t, "time", unix.CLONE_NEWTIME)
	for _, offset := range []string{"86400", "-100"} {
		p, _ := startCSubject(t)
		cmd := exec.Command(stapsdt(t), "trace", "-o", "json", "-p", pid(p), "csubject:other", "-n", "3")
		tr := &tracer{tracetest.Command(t, inNamespaces(t, "--time --fork --monotonic "+offset, "", cmd)), t}
		tr.until(func() bool { return isTraced(p) })
		before := time.Now()
		tell(p, "fire 3")
		events := tr.waitForEnd()
		require.Len(t, events, 3)
		for _, e := range events {
			require.WithinRange(t, e.Time, before.Add(-time.Second), time.Now().Add(time.Second), offset)
		}
	}
}
