//go:build linux && (amd64 || arm64)

package law

import (
	"fmt"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// flight holds operations and ends them.
func (p *program) flight(n int) (held, after numbers) {
	p.t.Helper()
	p.does(fmt.Sprint("hold ", n), "held")
	held = p.measures()
	p.does("release", "released")
	return held, p.measures()
}

// watched holds operations while the program is watched, and ends it. events are those of
// each probe that an operation has.
func (p *program) watched(w way, n int, events map[string]int) (c cycle) {
	p.t.Helper()
	watcher := w.begin(p.t, p)
	c.before = p.measures()
	c.held, _ = p.flight(n)
	seen := watcher.leave()
	p.does("disabled", "disabled")
	c.after = p.measures()
	for probe, times := range events {
		if w.all {
			require.Equal(p.t, n*times, seen[probe], probe)
		}
	}
	require.NotEmpty(p.t, seen)
	p.ends()
	return c
}

func (c cycle) perOperation(n int) string {
	return fmt.Sprintf("%d B of heap and %d B of stack for each of %d operations, %d threads, %d goroutines, %d descriptors; %d B of heap when they have ended",
		(c.held.Heap-c.before.Heap)/n, (c.held.Stacks-c.before.Stacks)/n, n, c.held.Threads, c.held.Goroutines, c.held.Descriptors, c.after.Heap)
}

// requireNoneEach requires that watching takes no thread, goroutine or descriptor for each operation. The runtime may have
// a few more threads and goroutines, depending on what else the machine does.
func (w way) requireNoneEach(t testing.TB, bare, with cycle, n int) {
	t.Helper()
	assert.Zero(t, (with.held.Threads-bare.held.Threads)/n, "threads for each operation")
	assert.Zero(t, (with.held.Goroutines-bare.held.Goroutines)/n, "goroutines for each operation")
	assert.LessOrEqual(t, with.held.Descriptors, bare.held.Descriptors+w.descriptors, "descriptors")
	assert.Zero(t, (with.after.Threads-bare.after.Threads)/n, "threads for each operation afterwards")
	assert.Zero(t, (with.after.Goroutines-bare.after.Goroutines)/n, "goroutines for each operation afterwards")
	assert.LessOrEqual(t, with.after.Descriptors, bare.after.Descriptors, "descriptors afterwards")
}

// measure records what a program takes more if it is watched.
func (w way) measure(t testing.TB, bare, with cycle, n int, most cost) {
	t.Helper()
	more := func(name string, of func(c cycle) int, bound int, unit string) {
		testenv.Figure(t, name, float64(of(with)-of(bare)), float64(bound), unit)
	}
	more("threads", func(c cycle) int { return c.held.Threads }, maxThreads, "")
	more("goroutines", func(c cycle) int { return c.held.Goroutines }, w.goroutines+1, "")
	more("heap", func(c cycle) int { return c.held.Heap - c.before.Heap }, n*most.heap+w.fixed+slack, "B")
	more("stacks", func(c cycle) int { return c.held.Stacks - c.before.Stacks }, n*most.stack+stackSlack, "B")
	more("threads afterwards", func(c cycle) int { return c.after.Threads }, maxThreads, "")
	more("goroutines afterwards", func(c cycle) int { return c.after.Goroutines }, 1, "")
	more("heap afterwards", func(c cycle) int { return c.after.Heap }, slack, "B")
	testenv.Figure(t, "stacks afterwards", float64(with.after.Stacks-bare.before.Stacks), idleStacks+stackSlack, "B")
}
