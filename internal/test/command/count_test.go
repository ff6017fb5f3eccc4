//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
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

// interrupt interrupts the command, which ends well.
func (tr *tracer) interrupt() {
	tr.Signal(os.Interrupt)
	require.NoError(tr.t, tr.Wait(testenv.Patience))
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
		tr.Signal(os.Interrupt)
		require.NoError(t, tr.Wait(testenv.Patience))
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
	for _, flag := range []string{"-w", "--by"} {
		r := runCommand(t, "count", "-p", pid(p), "subject:request__done", flag, "path == path")
		require.Equal(t, 2, r.status)
		require.Contains(t, r.stderr, "cannot be evaluated in the kernel")
		require.Contains(t, r.stderr, "\n\tpath == path\n\t")
	}
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
	match := regexp.MustCompile(`stapsdt: (\d+) events were lost, because there are too many different values of --by`).FindStringSubmatch(tr.Dump())
	require.NotNil(t, match)
	require.Equal(t, 20000, sum+must(strconv.Atoi(match[1]))(t))
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

// TestCountSome: probes without an argument that --by asks for are reported and not counted.
func TestCountSome(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t)
	testenv.NeedsRoot(t)
	tr := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), "count", "-o", "json", "-p", pid(p), "subject:*", "--by", "status")), t}
	require.Eventually(t, func() bool { return isTraced(t, p) }, testenv.Patience, 5*time.Millisecond)
	tell(p, "fire 5")
	tell(p, "storm 100 1")
	sum := 0
	for _, r := range tr.stopCounting() {
		require.Equal(t, "request__done", r.Probe)
		sum += r.Count
	}
	require.Equal(t, 5, sum)
	require.Regexp(t, `stapsdt: \d+ of \d+ probes (has|have) no status and (is|are) left out`, tr.Dump())
}

func TestHist(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t)
	tr := startTrace(t, p, "hist", "-o", "json", "-p", pid(p), "subject:tick", "arg0*arg0", "--by", "arg1")
	tell(p, "storm 1000 2")
	rows := tr.stopCounting()
	require.Len(t, rows, 2)
	sum := 0.
	for i := range 1000 {
		sum += float64(i * i)
	}
	for i, r := range rows {
		require.EqualValues(t, i, r.By["arg1"])
		require.Equal(t, 1000, r.Count)
		require.InDelta(t, sum/1000, r.Average, 1e-6)
		for q, got := range map[float64]float64{0.5: r.P50, 0.9: r.P90, 0.99: r.P99} {
			want := (q*1000 - 1) * (q*1000 - 1)
			require.InDelta(t, want, got, want/8, "a bucket is an eighth of its lowest value")
		}
		for _, b := range r.Buckets {
			want := 0
			for i := range 1000 {
				if v := float64(i * i); v >= *b.Low && v < *b.High {
					want++
				}
			}
			require.Equal(t, want, b.Count)
		}
	}
}

func TestHistText(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t)
	tr := startTrace(t, p, "hist", "-p", pid(p), "subject:request__done", "elapsed", "-w", "elapsed >= time.Millisecond")
	linear := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), "hist", "-p", pid(p), "subject:request__done", "elapsed", "--linear", "0s:6ms:2ms")), t}
	status := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), "hist", "-p", pid(p), "subject:request__done", "status", "--linear", "-2:2:1")), t}
	attached := func() bool {
		return strings.Contains(linksOf(t, linear), "uprobe") && strings.Contains(linksOf(t, status), "uprobe")
	}
	require.Eventually(t, attached, testenv.Patience, 5*time.Millisecond)
	tell(p, "fire 9")
	for _, tr := range []*tracer{tr, linear, status} {
		tr.Signal(os.Interrupt)
		require.NoError(t, tr.Wait(testenv.Patience))
	}
	wide := func(n, most int) string { return "|" + strings.Repeat("@", n) + strings.Repeat(" ", most-n) + "|" }
	bar := func(n int) string { return wide(n, 52) }
	require.Equal(t, []string{
		"subject:request__done elapsed",
		"[524µs, 1.05ms)           1 " + wide(13, 50),
		"[1.05ms, 2.1ms)           1 " + wide(13, 50),
		"[2.1ms, 4.19ms)           2 " + wide(25, 50),
		"[4.19ms, 8.39ms)          4 " + wide(50, 50),
		"count 8  average 4.5ms  p50 4ms  p90 8ms  p99 8ms  p999 8ms",
	}, tr.Lines())
	require.Equal(t, []string{
		"subject:request__done elapsed",
		"[0s, 2ms)           2 " + bar(35),
		"[2ms, 4ms)          2 " + bar(35),
		"[4ms, 6ms)          2 " + bar(35),
		"[6ms, ...)          3 " + bar(52),
		"count 9  average 4ms  p50 4.5ms  p90 7ms  p99 7ms  p999 7ms",
	}, linear.Lines())
	require.Equal(t, []string{
		"subject:request__done status",
		"(..., -2)          2 " + bar(52),
		"[-2]               2 " + bar(52),
		"[-1]               1 " + bar(26),
		"[0]                1 " + bar(26),
		"[1]                1 " + bar(26),
		"[2, ...)           2 " + bar(52),
		"count 9  average -0.5556  p50 -1  p90 2.5  p99 2.5  p999 2.5",
	}, status.Lines())
	for args, message := range map[string]string{
		"path":                       "a histogram takes integers, and this is a string",
		"elapsed --linear 1:2":       "is not LOW:HIGH:STEP",
		"elapsed --linear 1:2:x":     `"x" is neither an integer nor a duration`,
		"elapsed --linear 2:1:1":     "the upper bound must be above the lower one",
		"elapsed --linear 0:90000:1": "these are more than 1000 buckets",
		"pid --linear -5:5:1":        "this is a uint32, and the lower bound is negative",
	} {
		r := runCommand(t, append([]string{"hist", "-p", pid(p), "subject:request__done"}, strings.Fields(args)...)...)
		require.Equal(t, 2, r.status)
		require.Contains(t, r.stderr, message)
	}
}

// linksOf returns what the links of a process's descriptors contain.
func linksOf(t *testing.T, tr *tracer) string {
	out, err := exec.Command("grep", "-hs", "link_type", "-r", fmt.Sprintf("/proc/%d/fdinfo", tr.PID())).Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// TestCountByProcess: events are counted by the process that fires, also by the name of its
// program's file.
func TestCountByProcess(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t)
	path, err := os.Readlink("/proc/" + pid(p) + "/exe")
	require.NoError(t, err)
	name := filepath.Base(path)
	tr := startTrace(t, p, "count", "-o", "json", "-p", pid(p), "subject:request__done", "--by", "executable, uid, cgroup, comm",
		"-w", fmt.Sprintf("executable == %q && uid == %d && strings.HasPrefix(executable, %q) && len(executable) == %d", name, os.Getuid(), name[:1], len(name)))
	tell(p, "fire 10")
	rows := tr.stopCounting()
	require.Len(t, rows, 1)
	require.Equal(t, 10, rows[0].Count)
	require.Equal(t, name, rows[0].By["executable"])
	require.EqualValues(t, os.Getuid(), rows[0].By["uid"])
	require.Contains(t, cgroups(t), uint64(rows[0].By["cgroup"].(float64)))

	tr = startTrace(t, p, "trace", "-o", "json", "-p", pid(p), "subject:request__done", "-n", "1", "--show", "executable", "--strlen", "8")
	tell(p, "fire 1")
	require.NoError(t, tr.Wait(testenv.Patience))
	require.Contains(t, tr.Lines()[0], `"executable":"`+name[:min(8, len(name))])
}

// cgroups returns the numbers of the control groups of version 2.
func cgroups(t *testing.T) (all []uint64) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if fields[2] != "cgroup2" {
			continue
		}
		require.NoError(t, filepath.WalkDir(fields[1], func(_ string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				info, err := d.Info()
				if err == nil {
					all = append(all, info.Sys().(*syscall.Stat_t).Ino)
				}
			}
			return nil
		}))
	}
	return all
}
