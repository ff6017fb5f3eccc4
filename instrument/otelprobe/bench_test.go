package otelprobe

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// nothing is a processor that does nothing, as one that exports would be the first of the
// program.
type nothing struct{}

func (nothing) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (nothing) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (nothing) Shutdown(context.Context) error                  { return nil }
func (nothing) ForceFlush(context.Context) error                { return nil }

// pair returns tracers without the package, and with it.
func (m *program) pair(next sdktrace.Sampler) (bare, probed trace.Tracer) {
	return sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(nothing{}), sdktrace.WithSampler(next)).Tracer(""),
		sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(nothing{}), sdktrace.WithSampler(m.probes.Sampler(next)),
			sdktrace.WithSpanProcessor(m.processor)).Tracer("")
}

// run is a span of a program.
func run(tracer trace.Tracer) {
	_, s := tracer.Start(context.Background(), "span")
	s.End()
}

// kinds are those of spans, whose cost differs.
var kinds = []struct {
	name string
	next sdktrace.Sampler
}{{"sampled", sdktrace.AlwaysSample()}, {"dropped", sdktrace.NeverSample()}}

// calls is what the SDK calls for a span: the package's part of its time, without that of the
// SDK's allocations, which differs from run to run by more.
func calls(sampler sdktrace.Sampler, processors []sdktrace.SpanProcessor, given sdktrace.SamplingParameters, s sdktrace.ReadWriteSpan) {
	if sampler.ShouldSample(given).Decision == sdktrace.Drop {
		return
	}
	for _, p := range processors {
		p.OnStart(given.ParentContext, s)
	}
	for _, p := range processors {
		p.OnEnd(s)
	}
}

// bareAndProbed returns these calls in a program without the package, and with it.
func bareAndProbed(t testing.TB, next sdktrace.Sampler) (bare, probed func()) {
	m := newProgram(t, next)
	_, s := sdktrace.NewTracerProvider().Tracer("").Start(context.Background(), "span")
	span := s.(sdktrace.ReadWriteSpan)
	given := sdktrace.SamplingParameters{ParentContext: context.Background(), Name: "span"}
	without, with := []sdktrace.SpanProcessor{nothing{}}, []sdktrace.SpanProcessor{nothing{}, m.processor}
	sampler := m.probes.Sampler(next)
	return func() { calls(next, without, given, span) }, func() { calls(sampler, with, given, span) }
}

// TestOverhead: the package takes a small part of a span's time while nothing traces.
func TestOverhead(t *testing.T) {
	testenv.Measures(t, "what the package adds to a span's time")
	testenv.NotRaced(t, "the detector takes time")
	testenv.NeedsOptimization(t, "it measures code that is inlined")
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(nothing{})).Tracer("")
	const batch = 100
	// The least of many short measurements is what the code takes when nothing disturbs it.
	least := func(run func(), so time.Duration) time.Duration {
		began := time.Now()
		for range batch {
			run()
		}
		return min(so, time.Since(began))
	}
	for _, kind := range kinds {
		bare, probed := bareAndProbed(t, kind.next)
		whole, without, with := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
		for range 2000 {
			whole, without, with = least(func() { run(tracer) }, whole), least(bare, without), least(probed, with)
		}
		t.Logf("%s: %.1f ns more, and a span takes %.1f ns", kind.name, float64(with-without)/batch, float64(whole)/batch)
		testenv.Figure(t, kind.name, 100*float64(with-without)/float64(whole), 12.5, "%")
	}
}

// BenchmarkCalls measures the package's part of a span.
func BenchmarkCalls(b *testing.B) {
	for _, kind := range kinds {
		bare, probed := bareAndProbed(b, kind.next)
		measure := func(name string, run func()) {
			b.Run(kind.name+"/"+name, func(b *testing.B) {
				for range b.N {
					run()
				}
			})
		}
		measure("bare", bare)
		measure("idle", probed)
	}
}

// BenchmarkSpan measures a span of a program that has another processor: without the package,
// with idle probes, and while it is observed.
func BenchmarkSpan(b *testing.B) {
	measure := func(name string, tracer trace.Tracer) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				run(tracer)
			}
		})
	}
	for _, kind := range kinds {
		m := newProgram(b, kind.next)
		bare, probed := m.pair(kind.next)
		measure(kind.name+"/bare", bare)
		measure(kind.name+"/idle", probed)
		stop := m.Observe(func(*stapsdt.Event) {})
		measure(kind.name+"/observed", probed)
		stop()
	}
}
