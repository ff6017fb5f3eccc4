//go:build linux

package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/otelprobe"
	"github.com/go-stapsdt/stapsdt/instrument/slogprobe"
	"github.com/go-stapsdt/stapsdt/span"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// spans are those of package span.
type spans struct {
	work *span.Operation[workStart, workEnd]
}

type (
	workStart struct{ N int64 }
	workEnd   struct{ Result string }
)

func newSpans(p *stapsdt.Provider) operations {
	id := span.WithTraceContext(func(context.Context) (traceID [16]byte, spanID [8]byte, ok bool) {
		return [16]byte{1}, [8]byte{2}, true
	})
	return spans{span.New[workStart, workEnd](p, "work", id)}
}

func (s spans) begin(n int) (operation, error) {
	ctx, sp := s.work.Start(context.Background(), workStart{int64(n)})
	return &started{sp}, differs(sp.ID(), span.ID(ctx))
}

type started struct{ *span.Span[workEnd] }

func (s *started) end() error {
	s.End(workEnd{"done"}, nil)
	return nil
}

// otelSpans are those of OpenTelemetry that the program drops, so that the SDK records them
// only because they are traced.
type otelSpans struct{ tracer trace.Tracer }

func newOtelSpans(p *stapsdt.Provider) operations {
	probes := otelprobe.New(p)
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(probes.SpanProcessor()), sdktrace.WithSampler(probes.Sampler(sdktrace.NeverSample())))
	return otelSpans{provider.Tracer("holder")}
}

func (o otelSpans) begin(n int) (operation, error) {
	_, s := o.tracer.Start(context.Background(), "work", trace.WithAttributes(attribute.Int("n", n)))
	return otelSpan{s}, nil
}

type otelSpan struct{ trace.Span }

func (s otelSpan) end() error {
	s.End()
	if c := s.SpanContext(); !c.IsValid() || c.IsSampled() {
		return errors.New("the span is sampled, or has no context")
	}
	return nil
}

// logs are records, which are in flight while a handler takes them.
type logs struct{ logger *slog.Logger }

func newLogs(p *stapsdt.Provider) operations {
	return logs{slog.New(slogprobe.New(p).Handler(sink{}))}
}

func (l logs) begin(n int) (operation, error) {
	return callOf(func(ctx context.Context) error {
		var taken int
		ctx = context.WithValue(ctx, takenKey{}, &taken)
		l.logger.DebugContext(ctx, "unwanted", "n", n)
		l.logger.With("n", n).InfoContext(ctx, "taken", "item", n+1)
		return differs(n+1, taken)
	})
}

type takenKey struct{}

// sink is a handler that takes records of level Info.
type sink struct{}

func (s sink) WithAttrs([]slog.Attr) slog.Handler { return s }
func (s sink) WithGroup(string) slog.Handler      { return s }

func (s sink) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (s sink) Handle(ctx context.Context, r slog.Record) error {
	if r.Message != "taken" {
		return errors.New("an unwanted record")
	}
	callIn(ctx).stay()
	r.Attrs(func(a slog.Attr) bool {
		*ctx.Value(takenKey{}).(*int) = int(a.Value.Int64())
		return true
	})
	return nil
}
