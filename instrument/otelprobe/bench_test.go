package otelprobe

import (
	"context"
	"testing"

	"github.com/go-stapsdt/stapsdt"

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
