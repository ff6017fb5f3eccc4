package span

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/operation"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/probetest"

	"github.com/stretchr/testify/require"
)

type (
	start struct{ Text string }
	end   struct {
		Rows int64
		More bool
	}
	none = struct{}
)

func TestSpan(t *testing.T) {
	p := eventtest.Provider(t, "span")
	query := NewOperation[start, end](p, "query")
	require.Equal(t, []string{"id", "parent", "text"}, eventtest.Names(query.start))
	require.Equal(t, []string{"id", "parent", "nanoseconds", "error", "rows", "more"}, eventtest.Names(query.end))
	rec := probetest.Record(t, p)
	require.True(t, query.Enabled())

	const slept = 20 * time.Millisecond
	ctx, outer := query.Start(t.Context(), start{"outer"})
	_, inner := query.StartFunc(ctx, func() start { return start{"inner"} })
	require.Equal(t, outer.ID(), ID(ctx))
	require.NotZero(t, outer.ID())
	require.Greater(t, inner.ID(), outer.ID())
	time.Sleep(slept)
	inner.EndFunc(func() end { return end{3, true} }, errors.New("broken"))
	outer.End(end{Rows: -1}, nil)

	events := rec.Events()
	require.Len(t, events, 4)
	ended := eventtest.Args(events[2])
	require.Equal(t, map[string]any{"id": inner.ID(), "parent": outer.ID(), "text": "inner"}, eventtest.Args(events[1]))
	require.Equal(t, map[string]any{"id": inner.ID(), "parent": outer.ID(), "nanoseconds": ended["nanoseconds"], "error": "broken", "rows": int64(3), "more": true}, ended)
	require.GreaterOrEqual(t, ended["nanoseconds"], slept)
	rec.Want(func() {
		query.starts.Fire(startArgs[start]{outer.ID(), 0, start{"outer"}})
		query.starts.Fire(startArgs[start]{inner.ID(), outer.ID(), start{"inner"}})
		query.ends.Fire(endArgs[end]{ID: inner.ID(), Parent: outer.ID(), Error: "broken", Fields: end{3, true}})
		query.ends.Fire(endArgs[end]{ID: outer.ID(), Fields: end{Rows: -1}})
	}, probetest.Ignore("nanoseconds"))
}

// TestIdle: nothing is done, made or allocated while nothing traces.
func TestIdle(t *testing.T) {
	p := eventtest.Provider(t, "span")
	query := NewOperation[start, end](p, "query", WithTraceContext(func(context.Context) (trace [16]byte, span [8]byte, ok bool) {
		panic("nothing traces")
	}))
	ctx := t.Context()
	before := ids.Load()
	err := error(failing{})
	run := func() {
		got, s := query.Start(ctx, start{"a"})
		if got != ctx || s != nil {
			t.Fatal("the context is another one, or there is a span")
		}
		s.End(end{}, err)
		got, s = query.StartFunc(ctx, func() start { panic("nothing traces") })
		if got != ctx {
			t.Fatal("the context is another one")
		}
		s.EndFunc(func() end { panic("nothing traces") }, err)
	}
	run()
	testenv.NotRaced(t, "the detector allocates")
	require.Zero(t, testing.AllocsPerRun(100, run))
	require.Equal(t, before, ids.Load())
	require.Zero(t, ID(ctx))
	require.Zero(t, (*Span[end])(nil).ID())
	require.False(t, query.Enabled())

	nowhere := NewOperation[start, end](nil, "query")
	_, s := nowhere.Start(ctx, start{})
	require.Nil(t, s)
}

// failing is an error that must not be looked at.
type failing struct{}

func (failing) Error() string { panic("looked at") }

// TestUntracedStart: a span that began untraced has no end.
func TestUntracedStart(t *testing.T) {
	p := eventtest.Provider(t, "span")
	query := NewOperation[start, end](p, "query")
	ctx, s := query.Start(t.Context(), start{})
	rec := probetest.Record(t, p)
	s.End(end{}, nil)
	require.Empty(t, rec.Events())

	_, inner := query.Start(ctx, start{})
	inner.End(end{}, nil)
	require.Zero(t, eventtest.Args(rec.Events()[0])["parent"])
}

// TestEachProbe: an observer of any one of the probes has complete spans.
func TestEachProbe(t *testing.T) {
	p := eventtest.Provider(t, "span")
	var trace TraceContextFunc = func(context.Context) (trace [16]byte, span [8]byte, ok bool) { return trace, span, true }
	query := NewOperation[start, end](p, "query", WithTraceContext(trace))
	for _, probe := range []*stapsdt.Probe{query.start, query.end, query.context} {
		seen := 0
		stop := p.Observe(func(e *stapsdt.Event) {
			require.Equal(t, probe.Name(), e.Probe().Name())
			require.NotZero(t, e.Arg(0).Uint64())
			seen++
		}, probe)
		_, s := query.Start(t.Context(), start{})
		s.End(end{}, failing{}) // whose text is made for an observer of the end, if it has any
		require.Equal(t, 1, seen, probe.Name())
		stop()
		_, s = query.Start(t.Context(), start{})
		s.End(end{}, nil)
		require.Equal(t, 1, seen, probe.Name())
	}
}

func TestErrorText(t *testing.T) {
	var nothing *time.ParseError
	for want, err := range map[string]error{
		"":                    nil,
		"x":                   errors.New("x"),
		"*time.ParseError":    nothing,
		"span.failing":        failing{},
		"*errors.errorString": errors.New(""),
		"a\nb":                errors.Join(errors.New("a"), errors.New("b")),
	} {
		require.Equal(t, want, operation.ErrorText(err))
	}
}

// TestEndedTwice by many goroutines, none of which started it, is ended once.
func TestEndedTwice(t *testing.T) {
	p, rec := eventtest.Recorded(t, "span")
	query := NewOperation[start, end](p, "query")
	_, s := query.Start(t.Context(), start{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { s.End(end{}, nil) })
	}
	all.Wait()
	s.EndFunc(func() end { panic("it has ended") }, nil)
	require.Len(t, rec.Events(), 2)
}

// TestDetached: a tracer that detaches while a span runs has no end, and the next one has no
// end of it either if it comes later still.
func TestDetached(t *testing.T) {
	p := eventtest.Provider(t, "span")
	query := NewOperation[start, end](p, "query")
	stop := p.Observe(func(*stapsdt.Event) {})
	_, s := query.Start(t.Context(), start{})
	stop()
	s.EndFunc(func() end { panic("nothing traces") }, failing{})
	rec := probetest.Record(t, p)
	s.End(end{}, nil)
	require.Empty(t, rec.Events())
}

// TestIDs: they are unique among providers, and when one is loaded again.
func TestIDs(t *testing.T) {
	seen := map[uint64]bool{}
	for range 3 {
		p := eventtest.Provider(t, "span")
		query := NewOperation[none, none](p, "query")
		for range 2 {
			p.Load() // where it can be loaded
			stop := p.Observe(func(*stapsdt.Event) {})
			_, s := query.Start(t.Context(), none{})
			require.NotZero(t, s.ID())
			require.False(t, seen[s.ID()])
			seen[s.ID()] = true
			stop()
			require.NoError(t, p.Unload())
		}
	}
}

// TestContext: the context of a span is like its parent in all else.
func TestContext(t *testing.T) {
	p := eventtest.Provider(t, "span")
	query := NewOperation[start, end](p, "query")
	defer p.Observe(func(*stapsdt.Event) {})()
	type key struct{}
	parent, cancel := context.WithTimeoutCause(context.WithValue(t.Context(), key{}, "value"), time.Hour, errors.New("late"))
	ctx, s := query.Start(parent, start{})
	child, cancelChild := context.WithCancelCause(ctx)
	require.Equal(t, "value", ctx.Value(key{}))
	require.Equal(t, s.ID(), ID(child))
	require.Contains(t, fmt.Sprint(ctx), fmt.Sprintf("Span(%d)", s.ID()))
	deadline, ok := parent.Deadline()
	got, gotOK := ctx.Deadline()
	require.Equal(t, deadline, got)
	require.Equal(t, ok, gotOK)
	defer context.AfterFunc(ctx, func() {})()
	require.Zero(t, testenv.GoroutinesOf("context"), "package context did not know the context's parent")
	cancel()
	<-child.Done()
	require.ErrorIs(t, child.Err(), context.Canceled)
	require.Equal(t, context.Cause(parent), context.Cause(child))
	cancelChild(nil)
	s.End(end{}, ctx.Err())

	// A program that passes nil must not fail because it is traced.
	ctx, s = query.Start(nil, start{}) //lint:ignore SA1012 nil is a mistake that some programs make
	require.NotNil(t, ctx)
	s.End(end{}, nil)
}

func TestTraceContext(t *testing.T) {
	p := eventtest.Provider(t, "span")
	type key struct{}
	query := NewOperation[start, end](p, "query", WithTraceContext(func(ctx context.Context) (trace [16]byte, span [8]byte, ok bool) {
		if ctx.Value(key{}) == nil {
			return trace, span, false
		}
		for i := range trace {
			trace[i] = byte(i + 1)
		}
		return trace, [8]byte{0xf0, 7: 1}, true
	}))
	rec := probetest.Record(t, p)
	_, s := query.Start(t.Context(), start{})
	s.End(end{}, nil)
	require.Len(t, rec.Events(), 2)
	rec.Reset()
	_, s = query.Start(context.WithValue(t.Context(), key{}, true), start{"a"})
	rec.Want(func() {
		query.starts.Fire(startArgs[start]{s.ID(), 0, start{"a"}})
		query.traces.Fire(s.ID(), 0x0102030405060708, 0x090a0b0c0d0e0f10, 0xf000000000000001)
	})
	require.Equal(t, []string{"id", "trace_high", "trace_low", "span"}, eventtest.Names(query.context))
}

// TestBubble: in a bubble a span takes the bubble's time.
func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := stapsdt.NewProvider("span")
		query := NewOperation[none, none](p, "query")
		rec := probetest.Record(t, p)
		_, s := query.Start(t.Context(), none{})
		time.Sleep(time.Hour)
		s.End(none{}, nil)
		require.Equal(t, time.Hour, rec.Events()[1].Arg(2).Duration())
	})
}

type wide[T any] struct{ A, B, C, D, E, F, G, H T }

func TestDefinitions(t *testing.T) {
	fits := eventtest.Provider(t, "span")
	NewOperation[struct {
		wide[int]
		I, J string
	}, wide[string]](fits, "query")
	err := fits.Load() // which may fail for other reasons
	require.NotErrorIs(t, err, stapsdt.ErrArgType)
	require.NotErrorIs(t, err, stapsdt.ErrTooManyArgs)
	require.NotErrorIs(t, err, stapsdt.ErrName)
	for name, c := range map[string]struct {
		define func(p *stapsdt.Provider)
		want   error
	}{
		"start": {func(p *stapsdt.Provider) { NewOperation[struct{ wide[wide[int]] }, none](p, "q") }, stapsdt.ErrArgType},
		"many": {func(p *stapsdt.Provider) {
			NewOperation[none, struct {
				wide[int]
				I int
			}](p, "q")
		}, stapsdt.ErrTooManyArgs},
		"taken":   {func(p *stapsdt.Provider) { NewOperation[struct{ Parent int }, none](p, "q") }, stapsdt.ErrName},
		"scalar":  {func(p *stapsdt.Provider) { NewOperation[int, none](p, "q") }, stapsdt.ErrArgType},
		"private": {func(p *stapsdt.Provider) { NewOperation[none, struct{ a int }](p, "q") }, stapsdt.ErrArgType},
		"name":    {func(p *stapsdt.Provider) { NewOperation[none, none](p, "a b") }, stapsdt.ErrName},
	} {
		p := eventtest.Provider(t, "span")
		c.define(p)
		require.ErrorIs(t, p.Load(), c.want, name)
	}
}

type large struct {
	A, B, C, D string
	E, F       int
}

var text = "SELECT"

// BenchmarkIdle measures what a span takes while nothing traces.
func BenchmarkIdle(b *testing.B) {
	p := eventtest.Provider(b, "span")
	small, big := NewOperation[start, end](p, "small"), NewOperation[large, large](p, "big")
	ctx := b.Context()
	b.Run("small", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			ctx, s := small.Start(ctx, start{text})
			s.End(end{1, true}, nil)
			runtime.KeepAlive(ctx)
		}
	})
	b.Run("large", func(b *testing.B) {
		for i := range b.N {
			ctx, s := big.Start(ctx, large{text, text, text, text, i, i})
			s.End(large{text, text, text, text, i, i}, nil)
			runtime.KeepAlive(ctx)
		}
	})
}
