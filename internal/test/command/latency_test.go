//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	sdtprobes "github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// measured is a line of latency with -o json: a row, or what has no counterpart.
type measured struct {
	counted
	Start, End       string
	StartsWithoutEnd *int `json:"starts_without_end"`
	EndsWithoutStart int  `json:"ends_without_start"`
	Open             int
	Longest          []struct {
		Nanoseconds int64
		PID, TID    int
		Key         any
		By, Args    map[string]any
	}
}

// stopMeasuring interrupts the command, and returns its rows, and what has no counterpart.
func (tr *tracer) stopMeasuring() (rows []measured, unpaired measured) {
	tr.t.Helper()
	tr.interrupt()
	all := lines[measured](tr.t, strings.Join(tr.Lines(), "\n"))
	require.NotEmpty(tr.t, all)
	unpaired = all[len(all)-1]
	require.NotNil(tr.t, unpaired.StartsWithoutEnd)
	return all[:len(all)-1], unpaired
}

// startWorker starts the program whose jobs are measured.
func startWorker(t testing.TB) *tracetest.Process {
	t.Helper()
	return startGoSubject(t, "worker")
}

// startLatency starts the command, and returns when it is attached to both probes of the jobs.
func startLatency(t testing.TB, p *tracetest.Process, args ...string) *tracer {
	t.Helper()
	return startTrace(t, p, slices.Concat([]string{"latency", "-p", pid(p), "worker:job__start", "worker:job__end"}, args)...)
}

// TestLatencyEnding: an operation counts as open, or as one without a start, only if it was so when the run ended, however long the
// detaching from one probe after the other takes.
func TestLatencyEnding(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{{"-i", "50ms"}, {"-i", "50ms", "--single"}} {
		p := startWorker(t)
		tell(p, "jobs 1")
		tr := startLatency(t, p, append(flags, "-o", "json")...)
		tell(p, "jobs 1")
		p.Say("jobs 1000000000") // one after the other
		tr.WaitMatch(regexp.MustCompile(`"count":\d\d`), testenv.Patience)
		_, unpaired := tr.stopMeasuring()
		require.LessOrEqual(t, unpaired.Open, 1)
		require.Equal(t, unpaired.Open, *unpaired.StartsWithoutEnd)
		require.Zero(t, unpaired.EndsWithoutStart)
		for _, o := range unpaired.Longest {
			require.GreaterOrEqual(t, o.Nanoseconds, int64(0))
		}
	}
}

// TestLatency: pairs by the first argument, with values of both probes and conditions on both, and what has no counterpart. An open
// operation shows all that its start has.
func TestLatency(t *testing.T) {
	t.Parallel()
	p := startWorker(t)
	tell(p, "jobs 1") // then the one that fails below is a move
	act := func() {
		tell(p, "jobs 30")
		tell(p, "fail")
		tell(p, "begin 3")
		tell(p, "end 2")
	}
	tr := startLatency(t, p, "-o", "json", "--by", "name,error", "--by", "id-began")
	act()
	rows, unpaired := tr.stopMeasuring()
	counts := map[string]int{}
	for _, r := range rows {
		require.EqualValues(t, 0, r.By["id-began"])
		require.Positive(t, r.P50)
		counts[fmt.Sprint(r.Start, " ", r.End, " ", r.By["name"], " ", r.By["error"])] += r.Count
	}
	const job = "worker:job__start worker:job__end "
	require.Equal(t, map[string]int{job + "copy ": 10, job + "move ": 10, job + "remove ": 10, job + "remove no space": 1}, counts)
	require.Equal(t, []int{3, 3, 2}, []int{*unpaired.StartsWithoutEnd, unpaired.Open, unpaired.EndsWithoutStart})
	require.Len(t, unpaired.Longest, 3)
	for i, name := range []string{"copy", "move", "remove"} { // in the order of their starts
		o := unpaired.Longest[i]
		require.Equal(t, []any{p.PID(), 33 + float64(i)}, []any{o.PID, o.Key})
		require.NotZero(t, o.TID)
		require.Positive(t, o.Nanoseconds)
		require.Equal(t, map[string]any{"name": name, "id-began": 0.}, o.By, "what only an end has is not known")
		require.Equal(t, map[string]any{"began": 33 + float64(i)}, o.Args, "and the name, which is in By")
	}

	tr = startLatency(t, p, "-o", "json", "-w", `name != "copy" && error == "" && strings.HasPrefix(name, "m")`)
	act()
	rows, unpaired = tr.stopMeasuring()
	require.Len(t, rows, 1)
	require.Equal(t, 10, rows[0].Count)
	require.Equal(t, 1, *unpaired.StartsWithoutEnd, "of three, one has the name")
	require.Equal(t, "move", unpaired.Longest[0].Args["name"])
	require.Equal(t, 2, unpaired.EndsWithoutStart, "the end of a job that is not selected is not one of these")
}

// TestLatencyByGoroutine: goroutines that move between threads, some of which never end their
// job, and others end one that they have not started.
func TestLatencyByGoroutine(t *testing.T) {
	t.Parallel()
	p := startWorker(t)
	tr := startLatency(t, p, "-o", "json", "--key", "goroutine", "--by", "began,ended")
	const all = 10_000
	p.Say(fmt.Sprint("crowd ", all))
	moved := tracetest.Must(strconv.Atoi(p.Expect("moved ", testenv.Patience)))(t)
	require.GreaterOrEqual(t, moved, all/100)
	rows, unpaired := tr.stopMeasuring()
	require.Len(t, rows, all*8/10)
	for _, r := range rows {
		require.Equal(t, r.By["began"], r.By["ended"])
		require.Equal(t, 1, r.Count)
		require.Greater(t, *r.Buckets[0].High, 1e6, "it slept for a millisecond at least")
	}
	require.Equal(t, all/10, *unpaired.StartsWithoutEnd)
	require.Equal(t, all/10, unpaired.Open)
	require.Equal(t, all/10, unpaired.EndsWithoutStart)
}

// TestLatencyByThread: a program in C.
func TestLatencyByThread(t *testing.T) {
	t.Parallel()
	p, path := startCSubject(t)
	tr := startTrace(t, p, "latency", "-o", "json", path+":csubject:work", path+":csubject:other", "--key", "thread")
	tell(p, "fire 5")
	tell(p, "fork 3")
	rows, unpaired := tr.stopMeasuring()
	require.Len(t, rows, 1)
	require.Equal(t, 8, rows[0].Count)
	// Of work, every second call fires twice, and the second replaces the first.
	require.Equal(t, 3, *unpaired.StartsWithoutEnd)
	require.Zero(t, unpaired.Open)
	require.Zero(t, unpaired.EndsWithoutStart)

	r := runCommand(t, "latency", "-p", pid(p), "csubject:work", "csubject:other", "--key", "goroutine")
	r.ends(t, 2, "process "+pid(p)+": goroutines cannot be told apart: its program has no build information of Go; give --key ")
}

// TestLatencyTooMany: starts for which there is no room are reported.
func TestLatencyTooMany(t *testing.T) {
	t.Parallel()
	p := startWorker(t)
	tr := startLatency(t, p, "-o", "json")
	tell(p, "begin 70000")
	_, unpaired := tr.stopMeasuring()
	require.Equal(t, 65536, unpaired.Open)
	require.Len(t, unpaired.Longest, 10)
	require.Contains(t, tr.Dump(), "stapsdt: 4464 starts are not included, because more than 65536 operations were open")
}

// TestCostOfLatency: a start and its end cost at most what they cost with bpftrace's script.
func TestCostOfLatency(t *testing.T) {
	testenv.Measures(t, "the cost of an event")
	p := startWorker(t)
	path := lines[listed](t, runCommand(t, "list", "-o", "json", "-p", pid(p)).stdout)[0].File
	storm := func() time.Duration {
		least := time.Hour
		for range 5 {
			p.Say("storm 20000")
			least = min(least, time.Duration(tracetest.Must(strconv.Atoi(p.Expect("took ", testenv.Patience)))(t)))
		}
		return least
	}
	keys := map[string]string{"arg0": "arg0", "thread": "tid"}
	if runtime.GOARCH == "amd64" {
		keys["goroutine"] = `*(uint64*)(reg("r14") + 152)`
	}
	for key, theirs := range keys {
		script := fmt.Sprintf("usdt:%[1]s:worker:job__start { @start[%[2]s] = nsecs; } "+
			"usdt:%[1]s:worker:job__end /@start[%[2]s]/ { @ = hist(nsecs - @start[%[2]s]); delete(@start[%[2]s]); }", path, theirs)
		compareWithBpftrace(t, p, storm, []string{"latency", "-p", pid(p), "worker:job__start", "worker:job__end", "--key", key}, script)
	}
}

// TestLatencyKinds: the operations of each kind that are open have columns of their own, and a kind that lacks what an expression asks for is left out.
func TestLatencyKinds(t *testing.T) {
	testenv.NeedsRoot(t)
	p := sdtprobes.NewProvider("kinds")
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	query, queried := sdtprobes.NewProbe2[uint64, string](p, "query__start", "id", "text"), sdtprobes.NewProbe2[uint64, int](p, "query__end", "id", "rows")
	cache, cached := sdtprobes.NewProbe3[uint64, int, string](p, "cache__start", "id", "size", "key"), sdtprobes.NewProbe1[uint64](p, "cache__end", "id")
	require.NoError(t, p.Load())
	measure := func(args ...string) (text, said string) {
		cmd := exec.Command(stapsdt(t), append([]string{"latency", "--via", "kernel", "-p", strconv.Itoa(os.Getpid()), "kinds:*"}, args...)...)
		tr := &tracer{tracetest.Command(t, cmd), t}
		require.Eventually(t, func() bool {
			return tr.Ended() || query.Enabled() && queried.Enabled() && (len(args) > 0 || cache.Enabled() && cached.Enabled())
		}, testenv.Patience, 5*time.Millisecond)
		for id := range uint64(3) {
			query.Fire(id, "SELECT")
			cache.Fire(id, 77, "pear")
		}
		queried.Fire(0, 5)
		cached.Fire(0)
		interrupt(t, tr)
		return strings.Join(tr.Lines(), "\n"), tr.Dump()
	}
	text, _ := measure()
	require.Regexp(t, `(?s)kinds:query__start → kinds:query__end\n.*2 starts without an end \(2 still open\); 0 ends[^\n]*\nOPEN FOR +PID +TID +ID +text\n[^\n]*"SELECT"\n`, text)
	require.Regexp(t, `(?s)kinds:cache__start → kinds:cache__end\n.*2 starts without an end \(2 still open\); 0 ends[^\n]*\nOPEN FOR +PID +TID +ID +size +key\n[^\n]* 77 +"pear"\n`, text)
	text, said := measure("--by", "rows")
	require.Contains(t, text, "rows=5")
	require.NotContains(t, text, "cache")
	require.Equal(t, 1, strings.Count(said, "stapsdt: 1 of 4 probes has no rows and is left out"))
}
