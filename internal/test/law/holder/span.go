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

type (
	workStart struct{ N int64 }
	workEnd   struct{ Result string }
)

// newSpans returns spans of package span.
func newSpans(p *stapsdt.Provider) begin {
	work := span.NewOperation[workStart, workEnd](p, "work", span.WithTraceContext(func(context.Context) (traceID [16]byte, spanID [8]byte, ok bool) {
		return [16]byte{1}, [8]byte{2}, true
	}))
	return func(n int) (end, error) {
		ctx, sp := work.Start(context.Background(), workStart{int64(n)})
		return func() error {
			sp.End(workEnd{"done"}, nil)
			return differs(sp.ID(), span.ID(ctx))
		}, nil
	}
}

// newOtelSpans returns spans of OpenTelemetry that the program drops, so that the SDK records them only because they are
// traced.
func newOtelSpans(p *stapsdt.Provider) begin {
	probes := otelprobe.New(p)
	tracer := sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(probes.SpanProcessor()), sdktrace.WithSampler(probes.Sampler(sdktrace.NeverSample()))).Tracer("holder")
	return func(n int) (end, error) {
		_, s := tracer.Start(context.Background(), "work", trace.WithAttributes(attribute.Int("n", n)))
		return func() error {
			s.End()
			if c := s.SpanContext(); !c.IsValid() || c.IsSampled() {
				return errors.New("the span is sampled, or has no context")
			}
			return nil
		}, nil
	}
}

// newLogs returns records, which are in flight while a handler takes them.
func newLogs(p *stapsdt.Provider) begin {
	logger := slog.New(slogprobe.New(p).Handler(sink{}))
	return func(n int) (end, error) {
		return callOf(func(ctx context.Context) error {
			var taken int
			ctx = context.WithValue(ctx, takenKey{}, &taken)
			logger.DebugContext(ctx, "unwanted", "n", n)
			logger.With("n", n).InfoContext(ctx, "taken", "item", n+1)
			return differs(n+1, taken)
		})
	}
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
