//go:build linux && (amd64 || arm64)

package law

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

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
	for name, begin := range map[string]func(testing.TB, *program) watcher{"command": command, "bpftrace": bpftrace} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kinds := all()
			if name == "bpftrace" {
				testenv.Long(t, "bpftrace takes a second each time")
				kinds = []string{"request", "query", "transaction", "rpc"} // of more, it takes seconds to attach
			}
			p := start(t, holder(t, static, kinds...))
			_, before := p.flight(100)
			for i := range 2 * visits() {
				p.does("hold 20", "held")
				if i == 0 {
					p.does("work", "working")
				}
				if w := working(p, begin(t, p)); i%2 == 1 {
					killed := w.(tracer)
					killed.Signal(os.Kill)
					require.Error(t, killed.Wait(testenv.Patience))
				} else {
					require.NotEmpty(t, w.leave())
				}
				p.does("disabled", "disabled")
				p.does("release", "released")
				p.right()
			}
			worked(t, p, kinds)
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

// watcher is what sees all probes of a program.
type watcher interface {
	// leave ends it, and returns how many events it saw of each probe.
	leave() map[string]int
}

// tracer is a watcher that is a process of its own.
type tracer interface {
	watcher
	Signal(os.Signal)
	Wait(timeout time.Duration) error
}

// way is a way to watch a program.
type way struct {
	name  string
	begin func(t testing.TB, p *program) watcher
	// all is whether no event is missing in what the watcher saw. The command has those that it
	// can print in time.
	all  bool
	slow bool
}

// ways are those from outside, and an observer. The tests of proberec and debugprobe hold the
// law for a recorder and the page.
var ways = []way{
	{name: "observed", begin: observe, all: true},
	{name: "command", begin: command},
	{name: "bpftrace", begin: bpftrace, all: true, slow: true},
}

// own is the program watching itself.
type own struct{ *program }

func observe(_ testing.TB, p *program) watcher {
	p.does("observe", "watched")
	return own{p}
}

func (o own) leave() map[string]int { return asks[map[string]int](o.program, "leave", "left ") }

// tracing is our command. It prints to a file.
type tracing struct {
	*tracetest.Process
	t    testing.TB
	path string
}

func command(t testing.TB, p *program) watcher {
	testenv.NeedsRoot(t)
	path := filepath.Join(t.TempDir(), "trace")
	tr := &tracing{tracetest.Command(t, exec.Command("sh", "-c", `exec "$1" trace -p "$2" 'law:*' >"$3"`, "sh", tracetest.Stapsdt(t), p.pid(), path)), t, path}
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

func bpftrace(t testing.TB, p *program) watcher {
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
