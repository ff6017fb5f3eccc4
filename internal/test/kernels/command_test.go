//go:build linux && (amd64 || arm64)

package kernels

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// request is an event that the command stapsdt traces.
type request struct {
	path    string
	status  int32
	elapsed time.Duration
	cached  bool
}

// requests returns the events whose values are compared.
func requests() (all []request) {
	for i := range 50 {
		all = append(all, request{fmt.Sprintf("/item/%d", i), int32(i%7 - 3), time.Duration(i) * time.Millisecond, i%2 == 0})
	}
	return all
}

// first is fired until the command sees it: it has then attached.
var first = request{path: "/first", status: 99}

// matching is a filter of the command that the kernel evaluates, with each kind of operation,
// and matches is what it means.
const matching = `status != 3 && strings.HasPrefix(path, "/item/") && !strings.Contains(path, "m/4") && ` +
	`(elapsed <= 20*time.Millisecond || cached) && !strings.HasSuffix(path, "8") || status == 99`

func (r request) matches() bool {
	return r.status != 3 && strings.HasPrefix(r.path, "/item/") && !strings.Contains(r.path, "m/4") &&
		(r.elapsed <= 20*time.Millisecond || r.cached) && !strings.HasSuffix(r.path, "8") || r.status == 99
}

// runServer is the program that the command traces. For a line it fires first, all requests, or pairs from many threads, or calls a
// function once or from many goroutines.
func runServer([]string) {
	p := stapsdt.NewProvider("guestserver")
	done := stapsdt.NewProbe4[string, int32, time.Duration, bool](p, "request__done", "path", "status", "elapsed", "cached")
	jobs := stapsdt.NewProvider("guestjobs")
	start := stapsdt.NewProbe2[int32, string](jobs, "job__start", "number", "path")
	end := stapsdt.NewProbe2[int32, bool](jobs, "job__end", "ended", "cached")
	texts := stapsdt.NewProvider("guestpairs")
	pair := stapsdt.NewProbe2[uint64, string](texts, "fired", "number", "text")
	pairDone := stapsdt.NewProbe2[uint64, string](texts, "done", "number", "text")
	if err := stapsdt.LoadAll(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	fire := func(events ...request) {
		for _, r := range events {
			start.Fire(r.status, r.path)
			done.Fire(r.path, r.status, r.elapsed, r.cached)
			end.Fire(r.status, r.cached)
		}
	}
	tracetest.EachLine(func(line string) {
		var all sync.WaitGroup
		switch line {
		case "first":
			fire(first)
		case "all":
			fire(requests()...)
		case "call":
			descend(0)
		case "calls":
			for range callers {
				all.Go(func() { descend(depth) })
			}
		case "pairs": // a number, and the text that belongs to it
			for thread := range uint64(pairThreads) {
				all.Go(func() {
					runtime.LockOSThread()
					for i := range uint64(pairs) {
						number := (thread + i) % 64
						pair.Fire(number, fmt.Sprint("text of ", number))
						pairDone.Fire(number, fmt.Sprint("text of ", number))
					}
				})
			}
		}
		all.Wait()
		fmt.Println("enabled", done.Enabled() || start.Enabled() || end.Enabled() || pair.Enabled())
	})
}

// startServer starts the server, and skips the test where it cannot be traced.
func startServer(t *testing.T) *tracetest.Process {
	t.Helper()
	tracetest.NeedUprobes(t)
	server := tracetest.Child(t, "server", tracetest.WithEnv("STAPSDT_DIR="+t.TempDir()))
	server.Expect("ready", testenv.Patience)
	return server
}

// enabled has the server do what a line says, and reports whether a probe is enabled then.
func enabled(server *tracetest.Process, line string) bool {
	server.Say(line)
	return server.Expect("enabled ", testenv.Patience) == "true"
}

// row is what the command prints of an event or of a number.
type row struct {
	Args, By map[string]any
	Count    int
	Average  float64
	Buckets  []struct{ Count int }
}

// commandPrints has the command trace the requests, which are fired once, and returns the lines that it has printed. It is attached when it
// has printed a line for first or, with the verb stack, which prints at its end, when the probe is enabled.
func commandPrints(t *testing.T, verb string, args ...string) []string {
	t.Helper()
	testedBy(t, "command")
	server := startServer(t)
	args = append([]string{verb, "-p", strconv.Itoa(server.PID())}, args...)
	tracer := tracetest.Command(t, exec.Command(tracetest.Stapsdt(t), args...))
	await(t, "the first line", tracer, func() bool {
		return enabled(server, "first") && verb == "stack" || len(tracer.Lines()) > 0
	})
	require.True(t, enabled(server, "all"))
	tracer.Signal(os.Interrupt)
	require.NoError(t, tracer.Wait(testenv.Patience))
	require.False(t, enabled(server, "first"))
	return tracer.Lines()
}

// rowsOf returns the rows that the command has printed, in order, but those of first.
func rowsOf(t *testing.T, lines []string) (rows []row) {
	t.Helper()
	for _, line := range lines {
		var r row
		require.NoError(t, json.Unmarshal([]byte(line), &r), line)
		if r.Args["status"] != 99. && r.By["status == 99"] != true && r.By["path"] != first.path {
			rows = append(rows, r)
		}
	}
	return rows
}

// The command shows the values of the events that an expression selects.
func TestCommandTrace(t *testing.T) {
	var want, got []map[string]any
	for _, r := range requests() {
		if r.matches() {
			want = append(want, map[string]any{"path": r.path, "status": float64(r.status), "elapsed": float64(r.elapsed), "cached": r.cached})
		}
	}
	for _, r := range rowsOf(t, commandPrints(t, "trace", "-o", "json", "guestserver:*", "-w", matching)) {
		got = append(got, r.Args)
	}
	require.Greater(t, len(want), 5)
	require.Less(t, len(want), len(requests()))
	require.Equal(t, want, got)
}

// The command counts events by the values of expressions, one of which is text.
func TestCommandCount(t *testing.T) {
	want, got := map[string]int{}, map[string]int{}
	for _, r := range requests() {
		if r.matches() {
			want[fmt.Sprint(r.cached, int(r.status)%2, strings.HasSuffix(r.path, "1"))]++
		}
	}
	lines := commandPrints(t, "count", "-o", "json", "guestserver:*", "-w", matching,
		"--by", `status == 99,cached,status%2,strings.HasSuffix(path, "1")`, "-i", "200ms")
	for _, r := range rowsOf(t, lines) {
		got[fmt.Sprint(r.By["cached"], r.By["status%2"], r.By[`strings.HasSuffix(path, "1")`])] = r.Count // the last is the whole
	}
	require.Greater(t, len(want), 4)
	require.Equal(t, want, got)
}

// The command counts the stacks from which the events come that an expression selects.
func TestCommandStack(t *testing.T) {
	want := 0
	for _, r := range requests() {
		if r.status == 3 {
			want++
		}
	}
	lines := commandPrints(t, "stack", "-o", "folded", "guestserver:*", "--by", "status", "-w", "status == 3 || status == 99")
	require.Regexp(t, fmt.Sprintf(`(?m)^guestserver:request__done;status=3;runtime\.goexit;.*;.*/tracetest\.EachLine;.*/kernels\.runServer\.func1 %d$`, want),
		strings.Join(lines, "\n"))
}

// The command pairs the events of two probes by the goroutine that fires them, with values and
// conditions of both.
func TestCommandLatency(t *testing.T) {
	want, got := map[string]int{}, map[string]int{}
	for _, r := range requests() {
		if !strings.HasSuffix(r.path, "8") && r.status != 3 {
			want[fmt.Sprint(r.path, r.status, r.cached)]++
		}
	}
	lines := commandPrints(t, "latency", "-o", "json", "-i", "200ms", "guestjobs:job", "--key", "goroutine", "--by", "path,ended,cached",
		"-w", `!strings.HasSuffix(path, "8") && ended != 3`)
	for _, r := range rowsOf(t, lines) {
		if r.Count > 0 {
			got[fmt.Sprint(r.By["path"], r.By["ended"], r.By["cached"])] = r.Count // the last is the whole
		}
	}
	require.Equal(t, want, got)
}

// The command draws a histogram of an expression.
func TestCommandHist(t *testing.T) {
	rows := rowsOf(t, commandPrints(t, "hist", "-o", "json", "guestserver:*", "elapsed", "-w", matching, "--by", "status == 99", "-i", "200ms"))
	require.NotEmpty(t, rows)
	h := rows[len(rows)-1]
	count, sum := 0, time.Duration(0)
	for _, r := range requests() {
		if r.matches() {
			count, sum = count+1, sum+r.elapsed
		}
	}
	require.Equal(t, count, h.Count)
	require.InDelta(t, float64(sum)/float64(count), h.Average, 1)
	require.Greater(t, len(h.Buckets), 3)
	for _, b := range h.Buckets {
		count -= b.Count
	}
	require.Zero(t, count, "events are in no bucket")
}

// TestCommandBudget: the command measures what an event costs on this kernel, and the instructions at which it probes
// functions where it can are those that the kernel does not single-step, as it does the entry.
func TestCommandBudget(t *testing.T) {
	testedBy(t, "gofunctions")
	server := startServer(t)
	out, err := exec.Command(tracetest.Stapsdt(t), "count", "-v", "--budget", "100%", "-d", "1s", "-p", strconv.Itoa(server.PID()), "guestserver:*").CombinedOutput()
	require.NoError(t, err, "%s", out)
	_, rest, found := strings.Cut(string(out), "in addition to the work of its BPF program: ")
	require.True(t, found, "%s", out)
	line, _, _ := strings.Cut(rest, "\n")
	t.Log(line)
	prices := map[string]time.Duration{}
	for price := range strings.SplitSeq(line, ", ") {
		name, text, _ := strings.Cut(price, " ")
		prices[name], err = time.ParseDuration(text)
		require.NoError(t, err, "%s", out)
		require.Positive(t, prices[name], name)
	}
	cheap := map[string][]string{"amd64": {"push", "nop1"}, "arm64": {"branch", "return"}}
	for _, name := range cheap[runtime.GOARCH] {
		require.Contains(t, prices, name)
		testenv.Figure(t, name, float64(prices[name])/float64(prices["entry"]), 0.5, "of the entry's price")
	}
}
