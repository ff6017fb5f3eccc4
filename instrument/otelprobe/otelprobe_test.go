package otelprobe

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/probetest"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// program is a program that has installed the package, and exports its spans.
type program struct {
	*stapsdt.Provider
	probes    *Probes
	processor *processor
	sdk       *sdktrace.TracerProvider
	tracer    trace.Tracer
	exported  *tracetest.InMemoryExporter
}

// recorded returns a program whose own sampler is given, and a recorder of its events.
func recorded(t testing.TB, next sdktrace.Sampler) (*program, *probetest.Recorder) {
	m := newProgram(t, next)
	return m, probetest.Record(t, m.Provider)
}

// newProgram returns a program whose own sampler is given.
func newProgram(t testing.TB, next sdktrace.Sampler) *program {
	p := eventtest.Provider(t, "otelprobe")
	probes := New(p)
	m := &program{Provider: p, probes: probes, processor: probes.SpanProcessor().(*processor), exported: tracetest.NewInMemoryExporter()}
	m.sdk = sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(m.processor),
		sdktrace.WithSampler(probes.Sampler(next)),
		sdktrace.WithSyncer(m.exported))
	t.Cleanup(func() { require.NoError(t, m.sdk.Shutdown(context.Background())) })
	m.tracer = m.sdk.Tracer("example.com/scope")
	return m
}

func TestSpans(t *testing.T) {
	m, rec := recorded(t, sdktrace.AlwaysSample())
	began := time.Now()
	ctx, outer := m.tracer.Start(t.Context(), "GET /", trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(began))
	_, inner := m.tracer.Start(ctx, "query")
	inner.SetAttributes(attribute.String("db.system", "sqlite"), attribute.String("text", `SELECT "a"`), attribute.Int("rows", 3), attribute.StringSlice("none", nil))
	inner.SetStatus(codes.Error, "no such table")
	inner.End(trace.WithTimestamp(began))
	outer.SetName("GET /items")
	outer.SetStatus(codes.Ok, "")
	outer.End(trace.WithTimestamp(began.Add(time.Second)))

	parent, id := number(outer.SpanContext().SpanID()), number(inner.SpanContext().SpanID())
	high, low := halves(outer.SpanContext().TraceID())
	require.Equal(t, outer.SpanContext().SpanID().String(), fmt.Sprintf("%016x", parent))
	require.Equal(t, outer.SpanContext().TraceID().String(), fmt.Sprintf("%016x%016x", high, low))
	const scope = "example.com/scope"
	rec.Want(func() {
		m.probes.start.Fire(start{parent, 0, "GET /", "server", scope, true})
		m.probes.context.Fire(parent, high, low, parent)
		m.probes.start.Fire(start{id, parent, "query", "internal", scope, true})
		m.probes.context.Fire(id, high, low, id)
		// It ended before it began, by the program's own times.
		m.probes.end.Fire(end{id, parent, 0, "no such table", "query", "Error", "internal", high, low, scope, `db.system=sqlite text="SELECT \"a\"" rows=3 none=[]`})
		m.probes.end.Fire(end{parent, 0, time.Second, "", "GET /items", "Ok", "server", high, low, scope, ""})
	})
	require.Zero(t, m.processor.running.count.Load())
	require.Zero(t, m.processor.running.size())
	require.Len(t, m.exported.GetSpans(), 2)
	require.Len(t, m.exported.GetSpans()[0].Attributes, 4, "the package has added attributes")
}

// TestRemoteParent: the parent may be a span of another process.
func TestRemoteParent(t *testing.T) {
	m, rec := recorded(t, nil)
	remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{0xf0, 15: 1}, SpanID: trace.SpanID{0xf0, 7: 2}, Remote: true})
	_, s := m.tracer.Start(trace.ContextWithRemoteSpanContext(t.Context(), remote), "request")
	s.End()
	require.EqualValues(t, uint64(0xf000000000000002), eventtest.Args(rec.Events()[0])["parent"])
	require.Equal(t, false, eventtest.Args(rec.Events()[0])["sampled"], "the default is to do as the parent does")
	require.EqualValues(t, uint64(0xf000000000000000), eventtest.Args(rec.Events()[1])["trace_high"])
	require.EqualValues(t, uint64(1), eventtest.Args(rec.Events()[1])["trace_low"])
}

// TestDropped: what the program drops is recorded while it is traced, and never exported,
// nor are its children.
func TestDropped(t *testing.T) {
	m := newProgram(t, sdktrace.ParentBased(sdktrace.NeverSample()))
	run := func(traced bool) {
		ctx, s := m.tracer.Start(t.Context(), "dropped")
		child, inner := m.tracer.Start(ctx, "child")
		require.False(t, s.SpanContext().IsSampled())
		require.False(t, trace.SpanContextFromContext(child).IsSampled())
		require.Equal(t, traced, s.IsRecording())
		require.Equal(t, traced, inner.IsRecording())
		inner.End()
		s.End()
		require.Empty(t, m.exported.GetSpans())
		require.Zero(t, m.processor.running.count.Load())
	}
	run(false)
	rec := probetest.Record(t, m.Provider)
	run(true)
	require.Len(t, rec.Events(probetest.OnlyNamed("span__start")), 2)
	ends := rec.Events(probetest.OnlyNamed("span__end"))
	require.Len(t, ends, 2)
	require.Equal(t, "child", eventtest.Args(ends[0])["name"])
	require.Equal(t, eventtest.Args(ends[1])["id"], eventtest.Args(ends[0])["parent"])
	require.Equal(t, false, eventtest.Args(rec.Events()[0])["sampled"])
}

// TestSampler: only a Drop is changed, and only while the probes are traced.
func TestSampler(t *testing.T) {
	m := newProgram(t, nil)
	state, err := trace.ParseTraceState("a=b")
	require.NoError(t, err)
	for _, traced := range []bool{false, true} {
		if traced {
			probetest.Record(t, m.Provider)
		}
		for _, decision := range []sdktrace.SamplingDecision{sdktrace.Drop, sdktrace.RecordOnly, sdktrace.RecordAndSample} {
			want := sdktrace.SamplingResult{Decision: decision, Attributes: []attribute.KeyValue{attribute.Int("a", 1)}, Tracestate: state}
			given := sdktrace.SamplingParameters{Name: "name", Kind: trace.SpanKindClient}
			got := m.probes.Sampler(samplerFunc(func(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
				require.Equal(t, given, p)
				return want
			})).ShouldSample(given)
			if traced && decision == sdktrace.Drop {
				want.Decision = sdktrace.RecordOnly
			}
			require.Equal(t, want, got)
		}
	}
	require.Equal(t, sdktrace.AlwaysSample(), m.probes.Sampler(sdktrace.AlwaysSample()))
	require.Equal(t, "stapsdt{AlwaysOffSampler}", m.probes.Sampler(sdktrace.NeverSample()).Description())
	require.Equal(t, "stapsdt{"+sdktrace.ParentBased(sdktrace.AlwaysSample()).Description()+"}", m.probes.Sampler(nil).Description())
}

type samplerFunc func(sdktrace.SamplingParameters) sdktrace.SamplingResult

func (f samplerFunc) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult { return f(p) }
func (samplerFunc) Description() string                                                  { return "func" }

// TestUntracedStart: a span that began untraced has no end, also if others are running.
func TestUntracedStart(t *testing.T) {
	m := newProgram(t, nil)
	_, early := m.tracer.Start(t.Context(), "early")
	rec := probetest.Record(t, m.Provider)
	_, other := m.tracer.Start(t.Context(), "other")
	early.End()
	require.Empty(t, rec.Events(probetest.OnlyNamed("span__end")))
	other.End()
	require.Len(t, rec.Events(probetest.OnlyNamed("span__end")), 1)
}

// TestDetached: a tracer that detaches while a span runs has no end, and the next one has no
// end of it either if it comes later still.
func TestDetached(t *testing.T) {
	m := newProgram(t, nil)
	stop := m.Observe(func(*stapsdt.Event) {})
	_, s := m.tracer.Start(t.Context(), "span")
	stop()
	s.End()
	require.Zero(t, m.processor.running.count.Load())
	rec := probetest.Record(t, m.Provider)
	s.End()
	require.Empty(t, rec.Events())
}

// TestEachProbe: an observer of any one of the probes sees every span.
func TestEachProbe(t *testing.T) {
	m := newProgram(t, sdktrace.NeverSample())
	for _, probe := range []*stapsdt.Probe{&m.probes.start.Probe, &m.probes.end.Probe, &m.probes.context.Probe} {
		seen := 0
		stop := m.Observe(func(e *stapsdt.Event) {
			require.Equal(t, probe.Name(), e.Probe().Name())
			seen++
		}, probe)
		_, s := m.tracer.Start(t.Context(), "span")
		s.End()
		stop()
		_, s = m.tracer.Start(t.Context(), "span")
		s.End()
		require.Equal(t, 1, seen, probe.Name())
	}
}

// TestEndedTwice by many goroutines, none of which started it, is ended once.
func TestEndedTwice(t *testing.T) {
	m, rec := recorded(t, nil)
	_, s := m.tracer.Start(t.Context(), "span")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { s.End() })
	}
	all.Wait()
	s.End()
	require.Len(t, rec.Events(probetest.OnlyNamed("span__end")), 1)
	require.Zero(t, m.processor.running.count.Load())
}

// TestNeverEnded: what is left of a span is garbage.
func TestNeverEnded(t *testing.T) {
	m, rec := recorded(t, sdktrace.NeverSample())
	const spans = 100
	for range spans {
		m.tracer.Start(context.Background(), "never ended")
	}
	ctx, kept := m.tracer.Start(context.Background(), "ended late")
	require.Eventually(t, func() bool {
		runtime.GC()
		return m.processor.running.count.Load() == 1
	}, testenv.Patience, time.Millisecond)
	require.Equal(t, 1, m.processor.running.size())
	require.Empty(t, rec.Events(probetest.OnlyNamed("span__end")))
	trace.SpanFromContext(ctx).End()
	kept.End()
	require.Len(t, rec.Events(probetest.OnlyNamed("span__end")), 1)
}

// TestManySpans of goroutines that migrate are all paired, while tracers come and go.
func TestManySpans(t *testing.T) {
	m, rec := recorded(t, sdktrace.TraceIDRatioBased(0.5))
	const goroutines, spans = 8, 50
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for range spans {
				ctx, s := m.tracer.Start(context.Background(), "outer")
				stop := m.Observe(func(*stapsdt.Event) {})
				_, inner := m.tracer.Start(ctx, "inner")
				ended := make(chan bool)
				go func() {
					inner.End()
					close(ended)
				}()
				runtime.Gosched()
				stop()
				s.End()
				<-ended
			}
		})
	}
	all.Wait()
	ids := func(name string) (list []any) {
		for _, e := range rec.Events(probetest.OnlyNamed(name)) {
			list = append(list, eventtest.Args(e)["id"])
		}
		return list
	}
	started := ids("span__start")
	require.Len(t, started, 2*goroutines*spans)
	require.ElementsMatch(t, started, ids("span__end"))
	require.Zero(t, m.processor.running.count.Load())
}

// TestError: the error is that of the span.
func TestError(t *testing.T) {
	m, rec := recorded(t, nil)
	for _, tt := range []struct {
		name, want, status string
		run                func(s trace.Span)
	}{
		{"none", "", "Unset", func(trace.Span) {}},
		{"described", "bad", "Error", func(s trace.Span) { s.RecordError(io.EOF); s.SetStatus(codes.Error, "bad") }},
		{"recorded", "EOF", "Error", func(s trace.Span) { s.RecordError(io.EOF); s.AddEvent("late"); s.SetStatus(codes.Error, "") }},
		{"unset", "EOF", "Unset", func(s trace.Span) { s.RecordError(io.ErrClosedPipe); s.RecordError(io.EOF) }},
		{"text", "Error", "Error", func(s trace.Span) { s.SetStatus(codes.Error, "") }},
		{"handled", "", "Ok", func(s trace.Span) { s.RecordError(io.EOF); s.SetStatus(codes.Ok, "") }},
		{"panic", "out of luck", "Unset", func(trace.Span) { panic("out of luck") }},
	} {
		rec.Reset()
		func() {
			defer func() { require.Equal(t, tt.name == "panic", recover() != nil) }()
			_, s := m.tracer.Start(t.Context(), tt.name)
			defer s.End()
			tt.run(s)
		}()
		ended := eventtest.Args(rec.Events(probetest.OnlyNamed("span__end"))[0])
		require.Equal(t, tt.want, ended["error"], tt.name)
		require.Equal(t, tt.status, ended["status"], tt.name)
	}
}

// TestCanceled: a context that is canceled does not concern the span.
func TestCanceled(t *testing.T) {
	m, rec := recorded(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, s := m.tracer.Start(ctx, "late")
	s.End()
	_, s = m.tracer.Start(nil, "none") //lint:ignore SA1012 nil is a mistake that some programs make
	s.End()
	require.Len(t, rec.Events(probetest.OnlyNamed("span__end")), 2)
}

// TestWithoutIDs: a span without ids is not reported.
func TestWithoutIDs(t *testing.T) {
	p, rec := eventtest.Recorded(t, "otelprobe")
	probes := New(p)
	r := probes.SpanProcessor().(*processor)
	sdk := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r), sdktrace.WithIDGenerator(sameIDs{}))
	_, s := sdk.Tracer("").Start(t.Context(), "no ids")
	s.End()
	require.Empty(t, rec.Events())
	require.Zero(t, r.running.size())
}

// size is the number of spans, counted one by one.
func (r *spanTable) size() (n int) {
	r.spans.Range(func(any, any) bool { n++; return true })
	return n
}

// TestShutdown: an SDK that has shut down reports nothing more, and keeps nothing.
func TestShutdown(t *testing.T) {
	m, rec := recorded(t, nil)
	_, s := m.tracer.Start(t.Context(), "span")
	require.NoError(t, m.sdk.ForceFlush(t.Context()))
	require.NoError(t, m.sdk.Shutdown(t.Context()))
	s.End()
	s = nil
	require.Empty(t, rec.Events(probetest.OnlyNamed("span__end")))
	require.Eventually(t, func() bool {
		runtime.GC()
		return m.processor.running.count.Load() == 0
	}, testenv.Patience, time.Millisecond)
}

// TestNone: with a nil provider nothing is reported, and the program goes on.
func TestNone(t *testing.T) {
	probes := New(nil)
	sdk := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(probes.SpanProcessor()), sdktrace.WithSampler(probes.Sampler(sdktrace.NeverSample())))
	_, s := sdk.Tracer("").Start(t.Context(), "span")
	require.False(t, s.IsRecording())
	s.End()
}

// TestIdle: nothing is allocated or kept while nothing traces.
func TestIdle(t *testing.T) {
	testenv.NotRaced(t, "the detector allocates")
	for _, next := range []sdktrace.Sampler{sdktrace.NeverSample(), sdktrace.AlwaysSample()} {
		bare, probed := newProgram(t, next).pair(next)
		require.Equal(t, testing.AllocsPerRun(100, func() { run(bare) }), testing.AllocsPerRun(100, func() { run(probed) }))
	}
}
