package tree

import (
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// spanSource makes events of spans.
type spanSource struct {
	t          *testing.T
	forest     *forest
	file       *replay.File
	start, end *recording.Probe
	now        time.Duration
}

func newSource(t *testing.T, finished func(*tree)) *spanSource {
	s := &spanSource{t: t, file: replay.NewFile(&replay.Process{PID: 1})}
	s.start, s.end = eventtest.Spans()
	s.forest = newForest(pairing.Operations{}, func(done *tree, _ pairing.Ended) error {
		finished(done)
		return nil
	})
	s.forest.operations.Know(s.start)
	s.forest.operations.Know(s.end)
	return s
}

// fire fires a probe one nanosecond later.
func (s *spanSource) fire(p *recording.Probe, words ...uint64) {
	s.now++
	require.NoError(s.t, s.forest.add(&events.Event{Event: eventtest.Event(s.now, p, words...), File: s.file}))
}

// TestForest: roots that never end make room for others, and leave nothing.
func TestForest(t *testing.T) {
	var done []*tree
	s := newSource(t, func(t *tree) { done = append(done, t) })
	id := uint64(0)
	for range 20 { // roots that never end, with operations that do
		id++
		root := id
		s.fire(s.start, root, 0)
		for range maxPerTree + 5 {
			id++
			s.fire(s.start, id, root)
			s.fire(s.end, id, root, 0)
		}
	}
	require.LessOrEqual(t, s.forest.size, maxNodes)
	require.LessOrEqual(t, len(s.forest.spans), maxNodes)
	require.Equal(t, uint64(7), s.forest.givenUp, "20 trees of 10,000 do not fit into 131,072")
	require.Empty(t, done)
	id++
	s.fire(s.start, id, 0)
	s.fire(s.end, id, 0, 1)
	require.Len(t, done, 1)
	require.True(t, done[0].failed)
	s.fire(s.end, 1, 0, 0) // of a tree that was given up
	require.Len(t, done, 1)
	last := id - (maxPerTree + 5) - 1
	s.fire(s.end, last, 0, 0)
	require.Len(t, done, 2)
	require.Equal(t, []int{maxPerTree, 6}, []int{done[1].nodes, done[1].dropped})
	s.fire(s.start, id+1, 0)
	s.fire(s.start, id+2, id+1) // does not end with its root
	s.fire(s.end, id+1, 0, 0)
	for _, o := range s.forest.operations.Open.All() {
		n := nodeOf(o)
		require.True(t, n == nil || n.tree.place != nil, "an open operation keeps a tree: %d", o.Key.ID())
	}
	s.file.EndPast(0, []*recording.Probe{s.start, s.end})
	require.NotEmpty(t, s.forest.ends)
	s.forest.gone(s.file)
	require.Zero(t, len(s.forest.ends)+s.forest.size+len(s.forest.spans)+s.forest.operations.Open.Len()+s.forest.trees.Len())
}

// TestForestRestarts: an id that is used again leaves nothing.
func TestForestRestarts(t *testing.T) {
	s := newSource(t, func(*tree) {})
	for range 1000 {
		s.fire(s.start, 7, 0)
	}
	require.Equal(t, 1, s.forest.operations.Open.Len())
	require.Len(t, s.forest.spans, 1)
}

// TestOwn: parts that overlap count once, and one that has not ended counts until the root does.
func TestOwn(t *testing.T) {
	child := func(since, took time.Duration, ended bool) *node {
		return &node{since: since, took: took, ended: ended}
	}
	root := &node{since: 100, took: 100, ended: true, children: []*node{
		child(150, 10, true), child(110, 20, true), child(120, 30, true), child(190, 0, false),
	}}
	require.Equal(t, 10+0+30*time.Nanosecond, root.own(root), "before 110, and from 160 to 190")
	require.Equal(t, 10*time.Nanosecond, root.children[3].own(root))
	require.Equal(t, 20, root.children[1].part(root))
}

// TestSlowest: the slowest trees are kept only as far as there is room for their operations.
func TestSlowest(t *testing.T) {
	v := &view{options: &Options{Slowest: 100}}
	for i := range 50 {
		took := time.Duration(i * 7 % 50)
		v.keep(&tree{root: &node{took: took}, nodes: maxPerTree})
	}
	require.True(t, v.crowded)
	require.Equal(t, 13*maxPerTree, v.kept)
	require.Len(t, v.slowest, 13)
	for i, one := range v.slowest {
		require.Equal(t, time.Duration(49-i), one.root.took)
	}
	v = &view{options: &Options{Slowest: 2}}
	for i := range 5 {
		v.keep(&tree{root: &node{took: time.Duration(i)}, nodes: 1})
	}
	require.Equal(t, []any{false, 2, 2}, []any{v.crowded, v.kept, len(v.slowest)})
}

// TestRequest: the tree of one operation can be asked for, by a number or a text.
func TestRequest(t *testing.T) {
	seven, texts := evaluate.Value{Item: evaluate.NewItem("id", expr.Type{Kind: expr.Uint, Size: 8}), Bits: 7}, evaluate.NewItem("id", expr.Type{Kind: expr.String})
	text := func(s string) evaluate.Value { return evaluate.Value{Item: texts, Text: s} }
	for _, c := range []struct {
		key   evaluate.Value
		asked string
		want  bool
	}{{seven, "", true}, {seven, "7", true}, {seven, "77", false}, {text("x y"), "x y", true}, {text("x y"), `"x y"`, true}, {text("x"), "y", false}} {
		require.Equal(t, c.want, (&tree{key: pairing.Key{c.key}}).requested(c.asked), c)
	}
}

// TestCalls: what a panic or Goexit leaves behind, a g that another goroutine gets, and calls without end.
func TestCalls(t *testing.T) {
	var done []*tree
	c := newCalls(func(t *tree, _ pairing.Ended) error {
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
		e := &recording.Event{Probe: probes[name], Monotonic: now, PID: 1, Goroutine: goroutine}
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
	require.EqualValues(t, 2, c.open.Strays)
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
	c.gone(file)
	require.Zero(t, c.size)
	open, _ := c.open.Unwind(goroutine{Process: file, G: 5}, 5, 1<<63)
	require.Empty(t, open)
}

// TestMemory: a tree takes the memory of one that has ended, but not that of one that is kept, nor of an operation that is open.
func TestMemory(t *testing.T) {
	var kept *tree
	s := newSource(t, func(done *tree) {
		if done.kept = kept == nil; done.kept {
			kept = done
		}
	})
	var all []*events.Event
	for _, fired := range []struct {
		probe *recording.Probe
		words []uint64
	}{
		{s.start, []uint64{1, 0}}, {s.start, []uint64{2, 1}}, {s.end, []uint64{2, 1, 0}}, {s.end, []uint64{1, 0, 0}},
	} {
		s.now++
		all = append(all, &events.Event{Event: eventtest.Event(s.now, fired.probe, fired.words...), File: s.file})
	}
	add := func() {
		for _, e := range all {
			if err := s.forest.add(e); err != nil {
				t.Error(err)
			}
		}
	}
	add()
	add()
	require.LessOrEqual(t, testing.AllocsPerRun(1000, add), 1.0, "the place of the tree in the list")
	require.Equal(t, []uint64{1, 2}, []uint64{kept.root.id, kept.root.children[0].id})
	require.Equal(t, time.Duration(3), kept.root.took)

	s.fire(s.start, 3, 0)
	s.fire(s.start, 4, 3)
	s.fire(s.end, 3, 0, 0) // its part is still open
	open := s.forest.operations.Open.Len()
	add()
	require.Equal(t, 1, open)
	require.Equal(t, open, s.forest.operations.Open.Len())
	s.fire(s.end, 4, 3, 0)
	require.Zero(t, s.forest.operations.Open.Len())
	require.Zero(t, s.forest.size)
}
