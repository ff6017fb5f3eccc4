//go:build linux && (amd64 || arm64)

package law

import (
	"os"
	"testing"

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
