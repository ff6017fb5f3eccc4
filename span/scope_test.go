package span

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// observed returns an operation that is observed until the test ends.
func observed(t testing.TB) *Operation[none, none] {
	p := eventtest.Provider(t, "span")
	op := NewOperation[none, none](p, "op")
	t.Cleanup(p.Observe(func(*stapsdt.Event) {}))
	return op
}

// depth returns the number of scopes in a context.
func depth(ctx context.Context) (n int) {
	for s, _ := nearest(ctx); s != nil; s, _ = nearest(s.Context) {
		n++
	}
	return n
}

// TestDirectlyNested: a loop that passes on each span's context keeps only the last one. The collector finds all others, and when the
// context is gone the last one too, although none is ended.
func TestDirectlyNested(t *testing.T) {
	op := observed(t)
	ctx := t.Context()
	var last uint64
	const spans = 1000
	var found atomic.Int32
	for range spans {
		var s *Span[none]
		ctx, s = op.Start(ctx, none{})
		runtime.AddCleanup(s, func(n *atomic.Int32) { n.Add(1) }, &found)
		if s.parent != last {
			t.Fatalf("the parent is %d, not %d", s.parent, last)
		}
		last = s.ID()
	}
	collected := func(n int32) func() bool { return func() bool { runtime.GC(); return found.Load() == n } }
	require.Eventually(t, collected(spans-1), testenv.Patience, time.Millisecond)
	require.Equal(t, 1, depth(ctx))
	require.Equal(t, last, ID(ctx))
	ctx = nil
	require.Eventually(t, collected(spans), testenv.Patience, time.Millisecond)
}

// TestNestedInContexts: a program that nests contexts of its own has at most maxDepth of ours in
// them, and Start searches at most as many.
func TestNestedInContexts(t *testing.T) {
	op := observed(t)
	type key struct{}
	const turns = 10_000
	ctx := t.Context()
	parents := 0
	for i := range turns {
		ctx = context.WithValue(ctx, key{}, i)
		within := ID(ctx)
		inside, s := op.Start(ctx, none{})
		if s.parent != within || (inside == ctx) != (i >= maxDepth) {
			t.Fatalf("span %d has the parent %d, not %d, or a context of its own", i, s.parent, within)
		}
		if within != 0 {
			parents++
		}
		s.End(none{}, nil)
		ctx = inside
	}
	require.Equal(t, 2*maxDepth-2, parents) // all but the first, and as far as the search goes
	require.Equal(t, turns-1, ctx.Value(key{}))
	require.Zero(t, ID(ctx))
}

// hostile is a context whose methods must not be called.
type hostile struct{ context.Context }

// TestHostileContext: no method of a program's context is called, not even to find the parent.
func TestHostileContext(t *testing.T) {
	op := observed(t)
	outer, o := op.Start(t.Context(), none{})
	for _, ctx := range []context.Context{hostile{}, &hostile{}, (*hostile)(nil), hostile{outer}} {
		require.Zero(t, ID(ctx))
		inside, s := op.Start(ctx, none{})
		require.Zero(t, s.parent)
		require.Equal(t, s.ID(), ID(inside))
		s.End(none{}, nil)
	}
	require.Zero(t, ID(nil)) //lint:ignore SA1012 nil is a mistake that some programs make
	o.End(none{}, nil)
}

// TestParentThrough: a span finds its parent through each type of package context.
func TestParentThrough(t *testing.T) {
	op := observed(t)
	type key struct{}
	ctx, s := op.Start(t.Context(), none{})
	canceled, cancel := context.WithCancel(ctx)
	defer cancel()
	caused, cancelCause := context.WithCancelCause(ctx)
	defer cancelCause(nil)
	timed, cancelTimed := context.WithTimeoutCause(ctx, time.Hour, errors.New("late"))
	defer cancelTimed()
	late, cancelLate := context.WithDeadline(ctx, time.Time{})
	defer cancelLate()
	for name, c := range map[string]context.Context{
		"value":         context.WithValue(ctx, key{}, 1),
		"cancel":        canceled,
		"cause":         caused,
		"timeout":       timed,
		"late":          late,
		"withoutCancel": context.WithoutCancel(ctx),
		"several":       context.WithoutCancel(context.WithValue(timed, key{}, 1)),
	} {
		_, inner := op.Start(c, none{})
		require.Equal(t, s.ID(), inner.parent, name)
		inner.End(none{}, nil)
	}
	s.End(none{}, nil)
}

// funcs is a context that calls functions when it is done, as those of some frameworks do.
type funcs struct {
	context.Context
	done   chan struct{}
	called *int
}

func (f funcs) Done() <-chan struct{} { return f.done }

func (f funcs) Err() error { return nil }

func (f funcs) AfterFunc(func()) (stop func() bool) {
	*f.called++
	return func() bool { return true }
}

// TestAfterFuncer: package context starts no goroutine for a context below a span's that it would
// not have started without the span.
func TestAfterFuncer(t *testing.T) {
	op := observed(t)
	called := 0
	ctx, s := op.Start(funcs{t.Context(), make(chan struct{}), &called}, none{})
	ctx, s2 := op.Start(ctx, none{})
	child, cancel := context.WithCancel(ctx)
	require.Equal(t, 1, called)
	require.Equal(t, s2.ID(), ID(child))
	require.Contains(t, ctx.(interface{ String() string }).String(), "Span(")
	cancel()
	s2.End(none{}, nil)
	s.End(none{}, nil)
}

// TestUntracedParent: a span has no id, and is no parent, if nothing traced its own probes when it started.
func TestUntracedParent(t *testing.T) {
	p, rec := eventtest.Recorded(t, "span")
	outer, inner := NewOperation[none, none](eventtest.Provider(t, "untraced"), "outer"), NewOperation[none, none](p, "inner")
	ctx, o := outer.Start(t.Context(), none{})
	require.Zero(t, o.ID())
	require.Zero(t, ID(ctx))
	_, i := inner.Start(ctx, none{})
	rec.Want(func() { inner.starts.Fire(startArgs[none]{ID: i.ID()}) })
}

// TestSiblings: spans that start with one context have one parent, whatever has started below.
func TestSiblings(t *testing.T) {
	p, rec := eventtest.Recorded(t, "span")
	op := NewOperation[none, none](p, "op")
	ctx, outer := op.Start(t.Context(), none{})
	first, a := op.Start(ctx, none{})
	_, b := op.Start(ctx, none{})
	_, c := op.Start(first, none{})
	rec.Want(func() {
		op.starts.Fire(startArgs[none]{ID: outer.ID()})
		op.starts.Fire(startArgs[none]{ID: a.ID(), Parent: outer.ID()})
		op.starts.Fire(startArgs[none]{ID: b.ID(), Parent: outer.ID()})
		op.starts.Fire(startArgs[none]{ID: c.ID(), Parent: a.ID()})
	})
}
