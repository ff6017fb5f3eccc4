package otelprobe_test

import (
	"context"
	"fmt"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/otelprobe"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

func Example() {
	shop := stapsdt.NewProvider("shop")
	defer shop.Close()
	spans := otelprobe.New(shop)
	// A program loads the provider here, or all providers: see package probeenv.

	sdk := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans.SpanProcessor()))
	defer sdk.Shutdown(context.Background())
	tracer := sdk.Tracer("example.com/shop") // or otel.Tracer, after otel.SetTracerProvider(sdk)

	// An observer stands in for a tracer.
	stop := shop.Observe(func(e *stapsdt.Event) {
		if e.Probe().Name() == "span__end" {
			fmt.Println(e.ArgByName("name"), e.ArgByName("attributes"), e.ArgByName("error"))
		}
	})
	defer stop()
	_, order := tracer.Start(context.Background(), "order")
	order.SetAttributes(attribute.String("item", "coffee"), attribute.Int("count", 500))
	order.SetStatus(codes.Error, "sold out")
	order.End()
	// Output: order item=coffee count=500 sold out
}

// A span that the program samples out is reported too, but not exported.
func ExampleProbes_Sampler() {
	shop := stapsdt.NewProvider("shop")
	defer shop.Close()
	spans := otelprobe.New(shop)
	sdk := sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(spans.SpanProcessor()),
		sdktrace.WithSampler(spans.Sampler(sdktrace.TraceIDRatioBased(0))),
	)
	defer sdk.Shutdown(context.Background())

	stop := shop.Observe(func(e *stapsdt.Event) {
		if e.Probe().Name() == "span__start" {
			fmt.Printf("%v sampled=%v\n", e.ArgByName("name"), e.ArgByName("sampled"))
		}
	})
	defer stop()
	_, order := sdk.Tracer("example.com/shop").Start(context.Background(), "order")
	order.End()
	// Output: order sampled=false
}
