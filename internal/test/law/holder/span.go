//go:build linux

package main

import (
	"context"
	"errors"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/otelprobe"
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
	return &started{ctx, sp}, nil
}

type started struct {
	ctx context.Context
	*span.Span[workEnd]
}

func (s *started) end() error {
	s.End(workEnd{"done"}, nil)
	return errors.Join(look("context of a span", s.ctx, afterFunc), differs(s.ID(), span.ID(s.ctx)))
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
