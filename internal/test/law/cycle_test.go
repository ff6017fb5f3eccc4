//go:build linux && (amd64 || arm64)

package law

import (
	"fmt"
	"testing"

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

// compare compares a program that is watched with one that is not.
func (w way) compare(t testing.TB, bare, with cycle, n int, most cost) {
	t.Helper()
	grown := func(c cycle, of func(numbers) int) int { return of(c.held) - of(c.before) }
	heap, stacks := func(m numbers) int { return m.Heap }, func(m numbers) int { return m.Stacks }
	assert.LessOrEqual(t, with.held.Threads, bare.held.Threads+maxThreads, "threads")
	assert.LessOrEqual(t, with.held.Goroutines, bare.held.Goroutines+w.goroutines, "goroutines")
	assert.LessOrEqual(t, with.held.Descriptors, bare.held.Descriptors+w.descriptors, "descriptors")
	assert.LessOrEqual(t, grown(with, heap), grown(bare, heap)+n*most.heap+w.fixed+slack, "heap")
	assert.LessOrEqual(t, grown(with, stacks), grown(bare, stacks)+n*most.stack+stackSlack, "stacks")

	assert.LessOrEqual(t, with.after.Threads, bare.after.Threads+maxThreads, "threads afterwards")
	assert.LessOrEqual(t, with.after.Goroutines, bare.after.Goroutines, "goroutines afterwards")
	assert.LessOrEqual(t, with.after.Descriptors, bare.after.Descriptors, "descriptors afterwards")
	assert.LessOrEqual(t, with.after.Heap, bare.after.Heap+slack, "heap afterwards")
	assert.LessOrEqual(t, with.after.Stacks, bare.before.Stacks+idleStacks+stackSlack, "stacks afterwards")
}
