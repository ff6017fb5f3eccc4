// Package otelprobe reports the spans of OpenTelemetry's SDK to tracers: those of otelhttp,
// otelgrpc, otelsql and every other instrumentation of the program, and its own.
//
//	app := stapsdt.NewProvider("shop")
//	spans := otelprobe.New(app)
//	err := app.Load()
//	...
//	otel.SetTracerProvider(sdktrace.NewTracerProvider(
//		sdktrace.WithSpanProcessor(spans.SpanProcessor()),
//		sdktrace.WithSampler(spans.Sampler(sampler)),
//		sdktrace.WithBatcher(exporter),
//	))
//
// It defines these probes, after the convention of package span:
//
//	span__start(id, parent, name, kind, scope, sampled)
//	span__end(id, parent, nanoseconds, error, name, status, kind,
//		trace_high, trace_low, scope, attributes)
//	span__context(id, trace_high, trace_low, span)
//
// id and parent are OpenTelemetry's IDs of the span and of its parent, as integers: printed
// with %016x, they are the IDs that a backend shows. parent is 0 if there is none, and may be
// a span of another process. The halves of the trace's ID are printed in the same way. span
// is the ID again, for scripts that read the contexts of all operations.
//
// nanoseconds is the time from the start to the end that the SDK exports. If the program
// gives a span times of its own, it is their difference, but at least 0. name is the span's first
// name at the start, and its last name at the end. scope is the name of the tracer,
// which is the import path of the instrumentation. kind is internal, server, client, producer
// or consumer, and status is Unset, Error or Ok. attributes are the attributes at the end, as
// KEY=VALUE with a space between them. sampled reports whether the span is also exported.
//
// error is empty if the status is Ok. Otherwise it is the first of these that exists: the
// description of the status Error, the message of the last exception that the span has recorded, as
// it does for a panic, and "Error" for the status Error. If none exists, error is empty.
//
// # Sampling
//
// SpanProcessor alone reports the spans that the program samples. With Sampler, a span that
// the program drops is reported too: while the probes are traced, it is recorded, but neither
// exported nor sampled by the services that the program calls. The program can notice this: see
// [Probes.Sampler].
//
// # What differs while traced
//
// Without Sampler, nothing that the program can see differs. The package calls the methods of
// the SDK's own spans only: a span of another type, which a processor of the program may put
// around one of the SDK's, is not reported.
//
// A span keeps at most 256 additional bytes until it has ended or is garbage. It keeps no
// goroutine, and holds a lock only while it is added to a table and removed.
//
// # Cost
//
// A span is reported if a probe is traced when the span starts. While none is, the processor
// tests a few bytes, and so does the sampler. The sampler also forwards its parameters and
// result, which adds about half the cost of the wrapped sampler. The SDK copies each recorded
// span when it ends if it has any processor; a program that exports spans has one already.
package otelprobe

import (
	"context"
	"encoding/binary"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/call"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Probes holds the probes. [New] makes it: the zero Probes must not be used. Its methods, and what
// they return, are safe for concurrent use.
type Probes struct {
	start   *stapsdt.ProbeOf[start]
	end     *stapsdt.ProbeOf[end]
	context *stapsdt.Probe4[uint64, uint64, uint64, uint64]
}

// start holds the arguments of span__start.
type start struct {
	ID      uint64
	Parent  uint64
	Name    string
	Kind    string
	Scope   string
	Sampled bool
}

// end holds the arguments of span__end.
type end struct {
	ID          uint64
	Parent      uint64
	Nanoseconds time.Duration
	Error       string
	Name        string
	Status      string
	Kind        string
	TraceHigh   uint64
	TraceLow    uint64
	Scope       string
	Attributes  string
}

// New defines the probes. If the provider has probes of these names with other arguments, its Load
// reports it. With a nil provider nothing is reported.
func New(p *stapsdt.Provider) *Probes {
	return &Probes{
		start:   stapsdt.NewProbeOf[start](p, "span__start"),
		end:     stapsdt.NewProbeOf[end](p, "span__end"),
		context: stapsdt.NewProbe4[uint64, uint64, uint64, uint64](p, "span__context", "id", "trace_high", "trace_low", "span"),
	}
}

// enabled reports whether a span that starts now is reported.
func (p *Probes) enabled() bool {
	enabled := on(&p.start.Probe) || on(&p.end.Probe) || on(&p.context.Probe)
	runtime.KeepAlive(p)
	return enabled
}

// on is Probe.Enabled. Its caller keeps the probe alive.
func on(p *stapsdt.Probe) bool { return call.Enabled(unsafe.Pointer(p)) }

// SpanProcessor returns a processor that reports the spans that are recorded. It never
// changes them, and its Shutdown and ForceFlush do nothing.
func (p *Probes) SpanProcessor() sdktrace.SpanProcessor {
	return &processor{probes: p}
}

type processor struct {
	probes  *Probes
	running spanTable
}

func (r *processor) OnStart(_ context.Context, s sdktrace.ReadWriteSpan) {
	if r.probes.enabled() {
		r.begin(s)
	}
}

func (r *processor) OnEnd(s sdktrace.ReadOnlySpan) {
	if r.running.count.Load() != 0 {
		r.finish(s)
	}
}

func (r *processor) Shutdown(context.Context) error   { return nil }
func (r *processor) ForceFlush(context.Context) error { return nil }

// begin reports that a span starts.
func (r *processor) begin(s sdktrace.ReadWriteSpan) {
	if !ofSDK(s) {
		return
	}
	sc := s.SpanContext()
	id := number(sc.SpanID())
	if id == 0 { // from an ID generator that is not the SDK's
		return
	}
	r.running.add(s)
	r.probes.start.FireFunc(func() start {
		return start{
			id,
			number(s.Parent().SpanID()),
			s.Name(),
			s.SpanKind().String(),
			s.InstrumentationScope().Name,
			sc.IsSampled(),
		}
	})
	high, low := halves(sc.TraceID())
	r.probes.context.Fire(id, high, low, id)
}

// finish reports that a span ends, if it reported its start.
func (r *processor) finish(s sdktrace.ReadOnlySpan) {
	if !ofSDK(s) || !r.running.remove(keyOf(s)) {
		return
	}
	r.probes.end.FireFunc(func() end {
		high, low := halves(s.SpanContext().TraceID())
		return end{
			ID: number(s.SpanContext().SpanID()), Parent: number(s.Parent().SpanID()),
			Nanoseconds: max(0, s.EndTime().Sub(s.StartTime())), Error: errorText(s),
			Name: s.Name(), Status: s.Status().Code.String(), Kind: s.SpanKind().String(),
			TraceHigh: high, TraceLow: low,
			Scope: s.InstrumentationScope().Name, Attributes: text(s.Attributes()),
		}
	})
}

// number returns an ID as an integer. Printed in hexadecimal, it is the ID's text.
func number(id trace.SpanID) uint64 { return binary.BigEndian.Uint64(id[:]) }

// halves returns a trace's ID in the same way.
func halves(id trace.TraceID) (high, low uint64) {
	return binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
}

// errorText returns the error that a span ended with.
func errorText(s sdktrace.ReadOnlySpan) string {
	status := s.Status()
	if status.Code == codes.Ok {
		return ""
	}
	if status.Description != "" {
		return status.Description
	}
	events := s.Events()
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Name != "exception" {
			continue
		}
		for _, a := range events[i].Attributes {
			if a.Key == "exception.message" && a.Value.AsString() != "" {
				return a.Value.AsString()
			}
		}
	}
	if status.Code == codes.Error {
		return status.Code.String()
	}
	return ""
}

// text returns attributes as one text, which is cut. Values that would be misread are quoted.
func text(attributes []attribute.KeyValue) string {
	var all strings.Builder
	for _, a := range attributes {
		if all.Len() > 0 {
			all.WriteByte(' ')
		}
		all.WriteString(prefix(string(a.Key)))
		all.WriteByte('=')
		value := cut(a.Value).Emit()
		if value == "" || strings.ContainsAny(value, " =\"\\\n\r\t") {
			value = strconv.Quote(value)
		}
		all.WriteString(value)
		if all.Len() > stapsdt.MaxString { // only these are reported
			break
		}
	}
	return prefix(all.String())
}

// prefix returns the part of a text that is reported.
func prefix(s string) string { return s[:min(len(s), stapsdt.MaxString)] }

// cut returns the part of a value that can be reported, so that no text is made of the rest.
// Each element of a slice takes at least two bytes.
func cut(v attribute.Value) attribute.Value {
	switch v.Type() {
	case attribute.STRING:
		return attribute.StringValue(prefix(v.AsString()))
	case attribute.BOOLSLICE:
		return attribute.BoolSliceValue(first(v.AsBoolSlice()))
	case attribute.INT64SLICE:
		return attribute.Int64SliceValue(first(v.AsInt64Slice()))
	case attribute.FLOAT64SLICE:
		return attribute.Float64SliceValue(first(v.AsFloat64Slice()))
	case attribute.STRINGSLICE:
		list, length := first(v.AsStringSlice()), 0
		for i, s := range list {
			list[i] = prefix(s)
			if length += len(list[i]); length > stapsdt.MaxString {
				list = list[:i+1]
				break
			}
		}
		return attribute.StringSliceValue(list)
	}
	return v
}

func first[T any](list []T) []T { return list[:min(len(list), stapsdt.MaxString/2)] }
