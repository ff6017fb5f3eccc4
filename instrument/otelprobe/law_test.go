package otelprobe

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/probetest"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// These are what a span keeps while it is observed: one that is recorded without the package, and one
// that is recorded because of Sampler, with the SDK's own part.
const (
	spanBytes    = 256
	droppedBytes = 768
)

// log has what the SDK calls of the program's values, and what they see.
type log struct{ list []string }

func (l *log) add(format string, args ...any) { l.list = append(l.list, fmt.Sprintf(format, args...)) }

// ShouldSample drops every third span, by its name.
func (l *log) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	l.add("sample %s %v", p.Name, p.Kind)
	decisions := []sdktrace.SamplingDecision{sdktrace.Drop, sdktrace.RecordOnly, sdktrace.RecordAndSample}
	return sdktrace.SamplingResult{Decision: decisions[len(p.Name)%3]}
}

func (l *log) Description() string { return "log" }

func (l *log) OnStart(_ context.Context, s sdktrace.ReadWriteSpan) {
	l.add("start %s %v %s %T", s.Name(), s.Attributes(), s.SpanContext().SpanID(), s)
}

func (l *log) OnEnd(s sdktrace.ReadOnlySpan) {
	l.add("end %s %v %v %d %s %T", s.Name(), s.Attributes(), s.Status(), len(s.Events()), s.SpanContext().SpanID(), s)
}

func (l *log) Shutdown(context.Context) error   { l.add("shutdown"); return nil }
func (l *log) ForceFlush(context.Context) error { l.add("flush"); return nil }

// generator generates the same ids in each run.
type generator struct {
	*log
	last uint64
}

func (g *generator) NewIDs(ctx context.Context) (id trace.TraceID, span trace.SpanID) {
	g.add("ids")
	g.last++
	binary.BigEndian.PutUint64(id[8:], g.last)
	return id, g.NewSpanID(ctx, id)
}

func (g *generator) NewSpanID(context.Context, trace.TraceID) (span trace.SpanID) {
	g.last++
	binary.BigEndian.PutUint64(span[:], g.last)
	return span
}

// counted is an error of the program, and a value of one of its attributes.
type counted struct{ *log }

func (c counted) String() string { c.add("String"); return "counted" }

func (c counted) Error() string { c.add("Error"); return "counted" }

func (l *log) use(tracer trace.Tracer) {
	ctx := context.Background()
	for _, name := range []string{"a", "ab", "abc", "abcd", "abcde"} {
		inner, s := tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
		l.add("recording %v %v %v", s.IsRecording(), s.SpanContext().IsSampled(), s.SpanContext().TraceID())
		s.SetAttributes(attribute.Stringer("stringer", counted{l}), attribute.StringSlice("list", []string{"a", "b"}))
		s.RecordError(counted{l})
		s.SetStatus(codes.Error, name)
		_, child := tracer.Start(inner, name+"-child")
		func() {
			defer func() { l.add("recovered %v", recover()) }()
			defer child.End()
			panic(name)
		}()
		s.End()
		s.End()
	}
}

// TestProgramsSeeTheSame: without Sampler, the sampler, the processors, the generator of ids and
// the errors of a program are called as untraced, and see the same, also if spans are dropped.
func TestProgramsSeeTheSame(t *testing.T) {
	p := eventtest.Provider(t, "otelprobe")
	probes := New(p)
	rec := eventtest.Same(t, p, func(probed bool) []string {
		var options []sdktrace.TracerProviderOption
		if probed {
			options = append(options, sdktrace.WithSpanProcessor(probes.SpanProcessor()))
		}
		l := &log{}
		sdk := sdktrace.NewTracerProvider(append(options, sdktrace.WithSpanProcessor(l), sdktrace.WithSampler(l), sdktrace.WithIDGenerator(&generator{log: l}))...)
		l.use(sdk.Tracer("scope"))
		require.NoError(t, sdk.Shutdown(t.Context()))
		require.Zero(t, testenv.Goroutines())
		require.Greater(t, len(l.list), 50)
		return l.list
	})
	require.NotEmpty(t, rec.Events(probetest.OnlyNamed("span__end")))
}

// private is a span of the program's, with none of the SDK's in it: every method panics.
type private struct{ sdktrace.ReadWriteSpan }

// TestSpansOfTheProgram: no method of a span is called that is not of the SDK's own types.
func TestSpansOfTheProgram(t *testing.T) {
	m, rec := recorded(t, nil)
	_, s := m.tracer.Start(t.Context(), "own") // so that ends are looked at
	for _, foreign := range []sdktrace.ReadWriteSpan{nil, private{}, &private{}, (*private)(nil), private{s.(sdktrace.ReadWriteSpan)}} {
		m.processor.OnStart(t.Context(), foreign)
		m.processor.OnEnd(foreign)
	}
	require.Empty(t, rec.Events(probetest.OnlyNamed("span__end")))
	s.End()
	require.Len(t, rec.Events(probetest.OnlyNamed("span__start")), 1)
	require.Len(t, rec.Events(probetest.OnlyNamed("span__end")), 1)
}

// TestLongAttributes: their text is cut while it is made.
func TestLongAttributes(t *testing.T) {
	testenv.NotRaced(t, "the detector allocates")
	long := strings.Repeat(" \x00", 8<<20)
	lists := []attribute.KeyValue{
		attribute.String(long, "long key"), attribute.String("text", long),
		attribute.StringSlice("texts", []string{long, long, long}), attribute.StringSlice("short", make([]string, 1<<16)),
		attribute.Int64Slice("numbers", make([]int64, 1<<16)), attribute.Float64Slice("fractions", make([]float64, 1<<16)),
		attribute.BoolSlice("answers", make([]bool, 1<<16)),
	}
	for _, a := range lists {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := text([]attribute.KeyValue{a})
		runtime.ReadMemStats(&after)
		require.Len(t, got, stapsdt.MaxString, a.Key[:4])
		// The SDK copies the list itself, but not its texts.
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2<<20), a.Key[:4])
	}
	for _, a := range []attribute.KeyValue{
		attribute.StringSlice("k", []string{"a", "<b>"}), attribute.Int64Slice("k", []int64{1, 2}), attribute.BoolSlice("k", []bool{true}),
		attribute.Float64Slice("k", []float64{0.5}), attribute.Float64("k", 2), attribute.Bool("k", true), attribute.Int("k", 3),
	} {
		require.Equal(t, a.Value.Emit(), cut(a.Value).Emit())
	}
	require.Equal(t, `a="" b="\n" c=true d="1 2"`, text([]attribute.KeyValue{
		attribute.String("a", ""), attribute.String("b", "\n"), attribute.Bool("c", true), attribute.String("d", "1 2")}))
	many := slices.Repeat([]attribute.KeyValue{attribute.String("key", "text")}, stapsdt.MaxString)
	require.Len(t, text(many), stapsdt.MaxString)
}

// TestInFlight: spans keep what the package says, and nothing when they have ended.
func TestInFlight(t *testing.T) {
	for _, tt := range []struct {
		name  string
		next  sdktrace.Sampler
		limit int
	}{{"recorded", sdktrace.AlwaysSample(), spanBytes}, {"dropped", sdktrace.NeverSample(), droppedBytes}} {
		t.Run(tt.name, func(t *testing.T) {
			p := eventtest.Provider(t, "otelprobe")
			probes := New(p)
			r := probes.SpanProcessor().(*processor)
			tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r), sdktrace.WithSampler(probes.Sampler(tt.next))).Tracer("")
			eventtest.InFlight(t, p, tt.limit, func() func() {
				_, s := tracer.Start(context.Background(), "span")
				return func() { s.End() }
			})
			require.Zero(t, r.running.count.Load())
			require.Zero(t, r.running.size())
		})
	}
}

// TestSameIDs: spans of the same ids, as a generator of the program's may give them, are counted
// as one.
func TestSameIDs(t *testing.T) {
	p := eventtest.Provider(t, "otelprobe")
	r := New(p).SpanProcessor().(*processor)
	probetest.Record(t, p)
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r), sdktrace.WithIDGenerator(sameIDs{trace.TraceID{1}, trace.SpanID{1}})).Tracer("")
	_, first := tracer.Start(context.Background(), "first")
	_, second := tracer.Start(context.Background(), "second")
	require.EqualValues(t, 1, r.running.count.Load())
	first.End()
	second.End()
	require.Zero(t, r.running.count.Load())
}

// sameIDs generates the same ids for each span.
type sameIDs struct {
	trace trace.TraceID
	span  trace.SpanID
}

func (s sameIDs) NewIDs(context.Context) (trace.TraceID, trace.SpanID)  { return s.trace, s.span }
func (s sameIDs) NewSpanID(context.Context, trace.TraceID) trace.SpanID { return s.span }
