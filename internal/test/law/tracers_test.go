//go:build linux && (amd64 || arm64)

package law

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// visits is how often a tracer comes and goes.
func visits() int {
	if testing.Short() {
		return 2
	}
	return 10
}

// working lets a program do operations of each kind while it is watched.
func working(p *program, w watcher) watcher {
	p.does("go on", "went on")
	return w
}

// worked ends a program's work.
func worked(t *testing.T, p *program, kinds []string) {
	t.Helper()
	done := asks[map[string]int](p, "rest", "rested ")
	require.Len(t, done, len(kinds))
	t.Logf("%v", done)
	p.right()
}

// TestTracersComeAndGo: operations that are in flight while tracers attach, detach and are
// killed have the results that they should have, and so have those that start and end
// meanwhile. Afterwards nothing remains.
func TestTracersComeAndGo(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	for name, tracer := range map[string]struct {
		visit func(t *testing.T, p *program, kill bool)
		kinds []string
	}{
		"command":  {visitCommand, all()},
		"bpftrace": {visitBpftrace, []string{"request", "query", "transaction", "rpc"}}, // of more, it takes seconds to attach
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "bpftrace" {
				testenv.Long(t, "bpftrace takes a second each time")
			}
			p := start(t, holder(t, static, tracer.kinds...))
			_, before := p.flight(100)
			for i := range 2 * visits() {
				p.does("hold 20", "held")
				if i == 0 {
					p.does("work", "working")
				}
				tracer.visit(t, p, i%2 == 1)
				p.does("disabled", "disabled")
				p.does("release", "released")
				p.right()
			}
			worked(t, p, tracer.kinds)
			after := p.measures()
			assert.LessOrEqual(t, after.Descriptors, before.Descriptors, "descriptors")
			t.Run("memory", func(t *testing.T) {
				testenv.Measures(t, "memory, threads and goroutines")
				testenv.Figure(t, "heap", float64(after.Heap-before.Heap), slack, "B")
				testenv.Figure(t, "threads", float64(after.Threads-before.Threads), maxThreads, "")
				testenv.Figure(t, "goroutines", float64(after.Goroutines-before.Goroutines), 1, "")
			})
			p.ends()
		})
	}
}

func visitCommand(t *testing.T, p *program, kill bool) {
	tr := trace(t, p, os.DevNull)
	working(p, tr)
	if kill {
		tr.Signal(os.Kill)
		require.Error(t, tr.Wait(testenv.Patience))
	} else {
		tr.leave()
	}
}

func visitBpftrace(t *testing.T, p *program, kill bool) {
	tr := count(t, p)
	working(p, tr)
	if kill {
		tr.Signal(os.Kill)
		require.Error(t, tr.Wait(testenv.Patience))
	} else {
		require.NotEmpty(t, tr.leave())
	}
}

// watcher is what sees all probes of a program.
type watcher interface {
	// leave ends it, and returns how many events it saw of each probe.
	leave() map[string]int
}

// way is a way to watch a program.
type way struct {
	name  string
	begin func(t testing.TB, p *program) watcher
	// all is whether no event is missing in what the watcher saw. A recorder has the last ones
	// only, the page a thousand in a second, and the command what it can print in time.
	all bool
	// fixed is how many bytes of the program's heap it may take, however many operations are
	// in flight.
	fixed int
	// goroutines and descriptors are how many it may take in the program.
	goroutines, descriptors int
	slow                    bool
}

// ways are all ways. The recorder's memory is not among its fixed bytes, because it is there
// before an operation begins. The page has a server, whose goroutine accepts, a connection
// with one that serves and one that waits for its end, two buffers of 256 KiB for events, and
// those of net/http.
var ways = []way{
	{name: "observed", begin: self("observe"), all: true, fixed: 64 << 10},
	{name: "recorded", begin: self("record"), fixed: 64 << 10},
	{name: "page", begin: view, fixed: 768 << 10, goroutines: 3, descriptors: 2},
	{name: "command", begin: command, fixed: 64 << 10},
	{name: "bpftrace", begin: bpftrace, all: true, fixed: 64 << 10, slow: true},
}

// own is the program watching itself.
type own struct{ *program }

func self(word string) func(t testing.TB, p *program) watcher {
	return func(_ testing.TB, p *program) watcher {
		p.does(word, "watched")
		return own{p}
	}
}

func (o own) leave() map[string]int { return asks[map[string]int](o.program, "leave", "left ") }

// viewer is a client of the page.
type viewer struct {
	*program
	seen chan map[string]int
}

func view(t testing.TB, p *program) watcher {
	answer, err := http.Get(p.does("page", "watched ") + "events.json?rate=1000&seconds=600")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	p.does("enabled", "enabled")
	v := viewer{p, make(chan map[string]int, 1)}
	go func() {
		defer answer.Body.Close()
		seen := map[string]int{}
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			var event struct{ Probe string }
			if json.Unmarshal(lines.Bytes(), &event) == nil {
				seen[event.Probe]++
			}
		}
		v.seen <- seen
	}()
	return v
}

func (v viewer) leave() map[string]int {
	v.does("leave", "left")
	return <-v.seen
}

// tracing is our command. It prints to a file.
type tracing struct {
	*tracetest.Process
	t    testing.TB
	path string
}

func command(t testing.TB, p *program) watcher {
	return trace(t, p, filepath.Join(t.TempDir(), "trace"))
}

func trace(t testing.TB, p *program, path string) *tracing {
	t.Helper()
	testenv.NeedsRoot(t)
	tr := &tracing{tracetest.Command(t, exec.Command("sh", "-c", `exec "$1" trace -p "$2" 'law:*' >"$3"`, "sh", stapsdt(t), p.pid(), path)), t, path}
	p.does("enabled", "enabled")
	return tr
}

func (tr *tracing) leave() map[string]int {
	tr.t.Helper()
	tr.Signal(syscall.SIGINT)
	require.NoError(tr.t, tr.Wait(testenv.Patience))
	text, err := os.ReadFile(tr.path)
	require.NoError(tr.t, err)
	seen := map[string]int{}
	for _, m := range regexp.MustCompile(`\blaw:(\w+)`).FindAllSubmatch(text, -1) {
		seen[string(m[1])]++
	}
	return seen
}

// counting is a bpftrace that counts events.
type counting struct {
	*tracetest.Tracer
	t testing.TB
}

func bpftrace(t testing.TB, p *program) watcher { return count(t, p) }

func count(t testing.TB, p *program) *counting {
	t.Helper()
	c := &counting{tracetest.Bpftrace(t, `usdt:*:law:* { @[probe] = count(); }`, "-p", p.pid()), t}
	p.does("enabled", "enabled")
	return c
}

func (c *counting) leave() map[string]int {
	c.t.Helper()
	seen := map[string]int{}
	for _, m := range regexp.MustCompile(`:law:(\w+)\]: (\d+)`).FindAllStringSubmatch(c.Stop(), -1) {
		n, err := strconv.Atoi(m[2])
		require.NoError(c.t, err)
		seen[m[1]] = n
	}
	return seen
}
