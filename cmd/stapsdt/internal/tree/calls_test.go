//go:build linux

package tree

import (
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// TestCalls: what a panic or Goexit leaves behind, a g that another goroutine gets, and calls without end.
func TestCalls(t *testing.T) {
	var done []*tree
	c := newCalls(func(t *tree, _ replay.Ended) error {
		done = append(done, t)
		return nil
	})
	file := replay.NewFile(&replay.Process{PID: 1})
	probes := map[string]*recording.Probe{}
	now := time.Duration(0)
	fire := func(name string, returns bool, goroutine, g, depth uint64) {
		if returns {
			name += ":return"
		}
		if probes[name] == nil {
			probes[name] = &recording.Probe{Provider: "go", Name: name}
		}
		now++
		e := &recording.Event{Monotonic: now, PID: 1, Goroutine: goroutine}
		require.NoError(t, e.Decode(probes[name], nil))
		require.NoError(t, c.add(&events.Event{Event: e, File: file, Call: &events.Call{G: g, Depth: depth, Return: returns}}))
	}
	call := func(name string, goroutine, depth uint64) { fire(name, false, goroutine, 1, depth) }
	end := func(name string, goroutine, depth uint64) { fire(name, true, goroutine, 1, depth) }

	call("a", 1, 10)
	call("b", 1, 20)
	call("b", 1, 30)
	end("a", 1, 10) // after a panic
	require.Len(t, done, 1)
	require.Equal(t, 3, done[0].nodes)
	require.False(t, done[0].root.children[0].ended)

	call("a", 1, 10)
	call("b", 1, 20)
	call("b", 1, 20) // the earlier one was left by a panic that a has recovered
	end("b", 1, 20)
	end("a", 1, 10)
	root := done[1].root
	require.EqualValues(t, 1, root.children[0].end(root)-root.children[0].since, "until the next event at most")
	require.EqualValues(t, 2, root.own(root))
	require.Contains(t, root.children[0].columns(root), "<1ns")
	done = done[:1]

	call("a", 1, 10)
	call("b", 1, 20) // the goroutine ends by Goexit, and 2 gets its g
	call("b", 2, 40)
	end("b", 2, 40)
	require.Len(t, done, 2)
	require.Equal(t, 1, done[1].nodes)
	require.EqualValues(t, 1, c.unwound)

	end("b", 2, 40) // its call was lost
	call("a", 2, 10)
	end("b", 2, 10)
	end("a", 2, 10)
	require.EqualValues(t, 2, c.strays)
	require.Len(t, done, 3)
	fire("a", false, 3, 0, 0)
	require.EqualValues(t, 1, c.foreign)

	for g := range uint64(2 * maxNodes) { // roots that never end
		fire("a", false, g+10, g+10, 10)
	}
	require.Positive(t, c.givenUp)
	require.LessOrEqual(t, c.size, maxNodes)
	for depth := range uint64(2 * maxPerTree) {
		call("a", 5, depth+1)
	}
	for depth := range uint64(2 * maxPerTree) {
		end("a", 5, 2*maxPerTree-depth)
	}
	require.Equal(t, maxPerTree, done[len(done)-1].nodes)
	require.EqualValues(t, maxPerTree, c.dropped)
	c.forget(file)
	require.Zero(t, c.size)
	require.Empty(t, c.goroutines)
}
