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

	"github.com/stretchr/testify/require"
)

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
