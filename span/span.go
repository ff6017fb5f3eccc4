// Package span reports operations, such as requests and queries, when they start and when
// they end. Tracers measure how long operations take, find out which are running, and follow
// them from one goroutine and thread to another, because both reports have the same ID.
//
// An operation has a name and two structs, whose fields describe it at its start and at its
// end:
//
//	type queryStart struct{ Text string }
//	type queryEnd struct{ Rows int64 }
//
//	var query = span.NewOperation[queryStart, queryEnd](app, "query")
//
//	func (db *DB) Query(ctx context.Context, text string) (rows []Row, err error) {
//		ctx, s := query.Start(ctx, queryStart{text})
//		defer func() { s.End(queryEnd{int64(len(rows))}, err) }()
//		…
//	}
//
// This defines two probes in the provider app:
//
//	query__start(id, parent, text)
//	query__end(id, parent, nanoseconds, error, rows)
//
// The ID is unique in the process, even among several providers and when they are unloaded and
// loaded again, and is never 0. parent is the ID of the span that the context of Start belongs to,
// or 0 if there is none. A span has an ID only if its own probes were traced when it started: to
// see parents, trace their probes too. nanoseconds is the duration of the operation, not counting
// the time that tracers took to handle its start. error is the text of the error that it ended
// with, or empty. One probe is therefore enough for most purposes:
//
//	bpftrace -p PID -e 'usdt:*:query__end { @us = hist(arg2 / 1000); }'
//
// A script that needs both probes uses the ID as the key of its maps, and not tid: a
// goroutine moves from thread to thread.
//
// # Cost
//
// A span is reported if a tracer is attached to one of the operation's probes, or the
// provider is observed, when the operation starts. While none is, Start and End take two or
// three nanoseconds together, allocate nothing, and read no clock; Start returns the context
// as it is. The structs are made in either case. If they have more than a few fields, use
// StartFunc and EndFunc, or test Enabled first, which takes about one nanosecond. A span that
// is reported allocates 64 bytes, once.
//
// # What differs while traced
//
// Start returns a context of another type, which has the values, the deadline and the
// cancellation of its argument. A span calls only these functions of the program: Error
// of the error that its operation ended with, and the functions passed to StartFunc,
// EndFunc and WithTraceContext. It calls no method of a context. A span therefore has no
// parent if a context whose type is not from package context lies between it and the span
// that it belongs to.
//
// A span that starts directly with the context of another takes the other's place in it. A loop
// that passes the context of each span on to the next span thus keeps only the last. If the program
// puts contexts of its own between them, at most 256 spans are in a context. Beyond that, Start
// returns the context that it was called with, so that its span is not the parent of any other.
package span

import (
	"context"
	"encoding/binary"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/call"
	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/operation"
)

// Operation is a kind of operation: a name, the fields S of its start, and the fields E of
// its end. Its methods are safe for concurrent use, at any time. The zero Operation has no
// probes, and its methods panic.
type Operation[S, E any] struct {
	// Enabled and Start test these probes. context is nil if there is none.
	start, end, context *stapsdt.Probe

	starts *stapsdt.ProbeOf[startArgs[S]]
	ends   *stapsdt.ProbeOf[endArgs[E]]
	traces *stapsdt.Probe4[uint64, uint64, uint64, uint64]
	trace  TraceContextFunc
}

// startArgs holds the arguments of NAME__start.
type startArgs[S any] struct {
	ID     uint64
	Parent uint64
	Fields S `probe:",inline"`
}

// endArgs holds the arguments of NAME__end.
type endArgs[E any] struct {
	ID          uint64
	Parent      uint64
	Nanoseconds time.Duration
	Error       string
	Fields      E `probe:",inline"`
}

// TraceContextFunc returns the W3C trace context that a context carries: the IDs of the trace and
// of the span that is current. ok is false if it carries none. It serves tracers only: Start
// calls it only while the operation is traced. It must not panic, block, or take a lock that a
// caller of Start may hold. For OpenTelemetry it is
//
//	func(ctx context.Context) ([16]byte, [8]byte, bool) {
//		sc := trace.SpanContextFromContext(ctx)
//		return sc.TraceID(), sc.SpanID(), sc.IsValid()
//	}
type TraceContextFunc func(context.Context) (traceID [16]byte, spanID [8]byte, ok bool)

// Option changes what NewOperation defines. It must not be nil.
type Option func(*options)

type options struct{ trace TraceContextFunc }

// WithTraceContext gives the operation a third probe, which is fired after NAME__start if f
// finds a trace context in the context of Start:
//
//	NAME__context(id, trace_high, trace_low, span)
//
// id is the ID of NAME__start. The others are the trace's ID in two halves, and the ID of the
// span that is current in ctx, all in big-endian order: printed with %016x they are the W3C
// traceparent's text. If several such options are given, the last one applies. With a nil f there
// is no third probe.
func WithTraceContext(f TraceContextFunc) Option { return func(o *options) { o.trace = f } }

// NewOperation defines an operation of the provider, and its probes NAME__start and NAME__end. S
// and E are structs whose fields are as [stapsdt.NewProbeOf] requires, at most 10 in S and 8 in E.
// Use struct{} for no fields. The names id, parent, nanoseconds and error are reserved.
//
// If the definition is invalid, the provider's Load reports it, and the operation may be used
// nevertheless. With a nil provider the operation is never reported.
func NewOperation[S, E any](p *stapsdt.Provider, name string, opts ...Option) *Operation[S, E] {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	op := &Operation[S, E]{
		starts: stapsdt.NewProbeOf[startArgs[S]](p, name+"__start"),
		ends:   stapsdt.NewProbeOf[endArgs[E]](p, name+"__end"),
		trace:  o.trace,
	}
	op.start, op.end = &op.starts.Probe, &op.ends.Probe
	if o.trace != nil {
		op.traces = stapsdt.NewProbe4[uint64, uint64, uint64, uint64](p, name+"__context", "id", "trace_high", "trace_low", "span")
		op.context = &op.traces.Probe
	}
	return op
}

// Enabled reports whether a span that starts now is reported. Like [stapsdt.Probe.Enabled],
// it is advisory.
func (o *Operation[S, E]) Enabled() bool {
	enabled := on(o.start) || on(o.end) || o.context != nil && on(o.context)
	runtime.KeepAlive(o)
	return enabled
}

// on is Probe.Enabled. Its callers use the operation afterwards if the result is true.
func on(p *stapsdt.Probe) bool { return call.Enabled(unsafe.Pointer(p)) }

// Start reports that an operation starts. It returns its span, and the context to which it
// belongs, which is derived from ctx. Spans that start with that context have it as their
// parent. While nothing traces the operation, Start returns ctx and nil: End then does
// nothing, even if a tracer attaches in the meantime. While the operation is traced, a nil ctx
// counts as context.Background().
func (o *Operation[S, E]) Start(ctx context.Context, fields S) (context.Context, *Span[E]) {
	if on(o.start) || on(o.end) || o.context != nil && on(o.context) {
		return o.begin(ctx, fields)
	}
	return ctx, nil
}

// StartFunc is like Start with the result of fields, which is called only while the
// operation is traced, and must not panic.
func (o *Operation[S, E]) StartFunc(
	ctx context.Context, fields func() S,
) (context.Context, *Span[E]) {
	if on(o.start) || on(o.end) || o.context != nil && on(o.context) {
		return o.begin(ctx, fields())
	}
	return ctx, nil
}

// ids is the ID of the last span.
var ids atomic.Uint64

// begin is Start while the operation is traced.
//
//go:noinline
func (o *Operation[S, E]) begin(ctx context.Context, fields S) (context.Context, *Span[E]) {
	if ctx == nil {
		ctx = context.Background()
	}
	within, found := nearest(ctx)
	s := newSpan[E](ctx)
	s.scope.id, s.ends = ids.Add(1), o.ends
	if within != nil {
		s.parent = within.id
	}
	o.starts.Fire(startArgs[S]{s.scope.id, s.parent, fields})
	if o.traces != nil && o.traces.Enabled() {
		if trace, span, ok := o.trace(ctx); ok {
			high, low := binary.BigEndian.Uint64(trace[:8]), binary.BigEndian.Uint64(trace[8:])
			o.traces.Fire(s.scope.id, high, low, binary.BigEndian.Uint64(span[:]))
		}
	}
	inside := s.scope.derive(ctx, within, found)
	s.began = clock.Now()
	return inside, s
}

// newSpan returns an empty span, in the room that ctx has for it, if any.
func newSpan[E any](ctx context.Context) *Span[E] {
	if in, ok := ctx.(operation.Roomy); ok {
		if s, ok := in.Room().Span.(*Span[E]); ok && s.ends == nil {
			return s
		}
	}
	return &Span[E]{}
}

// Span is an operation that has started and is reported. [Operation.Start] makes it: the zero Span
// must not be used. A nil Span is not reported: its methods do nothing. Its methods are safe for
// concurrent use, and any goroutine may end it.
// A span that is never ended keeps 64 bytes and the context of Start until the program refers
// neither to it nor to its context. No goroutine, timer or list refers to it.
type Span[E any] struct {
	scope  scope
	parent uint64
	began  time.Duration
	ended  atomic.Bool
	ends   *stapsdt.ProbeOf[endArgs[E]]
}

// ID returns the span's ID, or 0 if the span is not reported.
func (s *Span[E]) ID() uint64 {
	if s == nil {
		return 0
	}
	return s.scope.id
}

// End reports that the operation has ended, with err or, if it is nil, without an error. Only the
// first call does so. Error of err is called only while the end's probe is enabled. If it panics,
// as it may for a nil pointer, or returns no text, the name of the error's type is reported.
func (s *Span[E]) End(fields E, err error) {
	if s != nil {
		s.finish(fields, err)
	}
}

// EndFunc is like End with the result of fields, which is called only if the end is reported,
// and must not panic.
func (s *Span[E]) EndFunc(fields func() E, err error) {
	if s != nil {
		s.finishFunc(fields, err)
	}
}

//go:noinline
func (s *Span[E]) finish(fields E, err error) {
	if elapsed, ok := s.stop(); ok {
		s.ends.Fire(endArgs[E]{s.scope.id, s.parent, elapsed, operation.ErrorText(err), fields})
	}
}

//go:noinline
func (s *Span[E]) finishFunc(fields func() E, err error) {
	if elapsed, ok := s.stop(); ok {
		s.ends.Fire(endArgs[E]{s.scope.id, s.parent, elapsed, operation.ErrorText(err), fields()})
	}
}

// stop ends the span. It returns the span's duration, and whether to report the end.
func (s *Span[E]) stop() (elapsed time.Duration, report bool) {
	now := clock.Now()
	if s.ended.Swap(true) {
		return 0, false
	}
	return max(0, now-s.began), s.ends.Enabled()
}
