// Package span reports operations, such as requests and queries, when they start and when
// they end. Tracers measure how long operations take, find out which are running, and follow
// them from one goroutine and thread to another, because both reports have the same id.
//
// An operation has a name and two structs, whose fields describe it at its start and at its
// end:
//
//	type queryStart struct{ Text string }
//	type queryEnd struct{ Rows int64 }
//
//	var query = span.New[queryStart, queryEnd](app, "query")
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
// The id is unique in the process, also among several providers and when they are unloaded
// and loaded again, and is never 0. parent is the id of the span that the context of Start
// belongs to, or 0. nanoseconds is how long the operation took, without the time that
// tracers took to see its start. error is the text of the error that it ended with, or empty.
// One probe is therefore enough for most questions:
//
//	bpftrace -p PID -e 'usdt:*:query__end { @us = hist(arg2 / 1000); }'
//
// A script that needs both probes uses the id as the key of its maps, and not tid: a
// goroutine moves from thread to thread.
//
// # Cost
//
// A span is reported if a tracer is attached to one of the operation's probes, or the
// provider is observed, when the operation starts. While none is, Start and End take two or
// three nanoseconds together, allocate nothing, and read no clock; Start returns the context
// as it is. The structs are made in either case. If they have more than a few fields, use
// StartFunc and EndFunc, or test Enabled first, which takes about one nanosecond. A span that
// is reported allocates once.
package span

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/raw"
)

// Operation is a kind of operation: a name, the fields S of its start, and the fields E of
// its end. Its methods are safe for concurrent use, at any time. The zero Operation has no
// probes, and its methods panic.
type Operation[S, E any] struct {
	// These are tested. context is nil if there is none.
	start, end, context *stapsdt.Probe

	starts *stapsdt.ProbeOf[starting[S]]
	ends   *stapsdt.ProbeOf[ending[E]]
	traces *stapsdt.Probe4[uint64, uint64, uint64, uint64]
	trace  TraceContext
}

// starting are the arguments of NAME__start.
type starting[S any] struct {
	ID     uint64
	Parent uint64
	Fields S `probe:",inline"`
}

// ending are the arguments of NAME__end.
type ending[E any] struct {
	ID          uint64
	Parent      uint64
	Nanoseconds time.Duration
	Error       string
	Fields      E `probe:",inline"`
}

// TraceContext returns the W3C trace context that a context carries: the ids of the trace and
// of the span that is current. ok is false if it carries none. A TraceContext is called only
// while an operation is traced, and must not panic. For OpenTelemetry it is
//
//	func(ctx context.Context) ([16]byte, [8]byte, bool) {
//		sc := trace.SpanContextFromContext(ctx)
//		return sc.TraceID(), sc.SpanID(), sc.IsValid()
//	}
type TraceContext func(context.Context) (traceID [16]byte, spanID [8]byte, ok bool)

// Option is an option of New.
type Option func(*options)

type options struct{ trace TraceContext }

// WithTraceContext gives the operation a third probe, which is fired after NAME__start if f
// finds a trace context in the context of Start:
//
//	NAME__context(id, trace_high, trace_low, span)
//
// id is that of NAME__start. The others are the trace's id in two halves, and the id of the
// span that is current in ctx, all in big-endian order: printed with %016x they are the W3C
// traceparent's text. Of several such options, the last one applies.
func WithTraceContext(f TraceContext) Option { return func(o *options) { o.trace = f } }

// New defines an operation of the provider, and its probes NAME__start and NAME__end. S and E
// are structs whose fields are as [stapsdt.NewProbeOf] requires, at most 10 in S and 8 in E.
// Use struct{} for no fields. The names id, parent, nanoseconds and error are taken.
//
// If the definition is invalid, the provider's Load reports it, and the operation may still
// be used. With a nil provider the operation is never reported.
func New[S, E any](p *stapsdt.Provider, name string, opts ...Option) *Operation[S, E] {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	op := &Operation[S, E]{
		starts: stapsdt.NewProbeOf[starting[S]](p, name+"__start"),
		ends:   stapsdt.NewProbeOf[ending[E]](p, name+"__end"),
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
func on(p *stapsdt.Probe) bool { return raw.Enabled(unsafe.Pointer(p)) }

// Start reports that an operation starts. It returns its span, and the context to which it
// belongs, which is derived from ctx. Spans that start with that context have it as their
// parent. While nothing traces the operation, Start returns ctx and nil: End then does
// nothing, even if a tracer attaches in the meantime.
func (o *Operation[S, E]) Start(ctx context.Context, fields S) (context.Context, *Span[E]) {
	if on(o.start) || on(o.end) || o.context != nil && on(o.context) {
		return o.begin(ctx, fields)
	}
	return ctx, nil
}

// StartFunc is like Start with the result of fields, which is called only while the
// operation is traced, and must not panic.
func (o *Operation[S, E]) StartFunc(ctx context.Context, fields func() S) (context.Context, *Span[E]) {
	if on(o.start) || on(o.end) || o.context != nil && on(o.context) {
		return o.begin(ctx, fields())
	}
	return ctx, nil
}

// ids is the id of the last span.
var ids atomic.Uint64

// begin is Start while the operation is traced.
//
//go:noinline
func (o *Operation[S, E]) begin(ctx context.Context, fields S) (context.Context, *Span[E]) {
	if ctx == nil {
		ctx = context.Background()
	}
	s := &Span[E]{scope: scope{Context: ctx, id: ids.Add(1)}, parent: ID(ctx), ends: o.ends}
	o.starts.Fire(starting[S]{s.scope.id, s.parent, fields})
	if o.traces != nil && o.traces.Enabled() {
		if trace, span, ok := o.trace(ctx); ok {
			high, low := binary.BigEndian.Uint64(trace[:8]), binary.BigEndian.Uint64(trace[8:])
			o.traces.Fire(s.scope.id, high, low, binary.BigEndian.Uint64(span[:]))
		}
	}
	s.began = clock.Now()
	return &s.scope, s
}

// Span is an operation that has started and is reported. A nil Span is one that is not: its
// methods do nothing. Its methods are safe for concurrent use, and any goroutine may end it.
// A span that is never ended costs nothing but memory, which the garbage collector frees.
type Span[E any] struct {
	scope  scope
	parent uint64
	began  time.Duration
	ended  atomic.Bool
	ends   *stapsdt.ProbeOf[ending[E]]
}

// ID returns the span's id, or 0 for one that is not reported.
func (s *Span[E]) ID() uint64 {
	if s == nil {
		return 0
	}
	return s.scope.id
}

// End reports that the operation has ended, with err or, if it is nil, without an error. Only
// the first call does. The error's text is made only while a tracer is attached to the end's
// probe. An error without any text is reported with the name of its type.
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
		s.ends.Fire(ending[E]{s.scope.id, s.parent, elapsed, errorText(err), fields})
	}
}

//go:noinline
func (s *Span[E]) finishFunc(fields func() E, err error) {
	if elapsed, ok := s.stop(); ok {
		s.ends.Fire(ending[E]{s.scope.id, s.parent, elapsed, errorText(err), fields()})
	}
}

// stop ends the span. It returns how long it took, and whether this is to be reported.
func (s *Span[E]) stop() (elapsed time.Duration, report bool) {
	now := clock.Now()
	if s.ended.Swap(true) {
		return 0, false
	}
	return max(0, now-s.began), s.ends.Enabled()
}

// errorText returns the text of an error. If Error panics, as it may for a nil pointer, the
// program must not notice while it is traced.
func errorText(err error) (text string) {
	if err == nil {
		return ""
	}
	defer func() {
		if recover() != nil || text == "" {
			text = fmt.Sprintf("%T", err)
		}
	}()
	return err.Error()
}

// scope is the context of a span.
type scope struct {
	context.Context
	id uint64
}

// scopeKey is the key of a context's scope.
type scopeKey struct{}

func (c *scope) Value(key any) any {
	if key == (scopeKey{}) {
		return c
	}
	return c.Context.Value(key)
}

func (c *scope) String() string { return fmt.Sprintf("%v.Span(%d)", c.Context, c.id) }

// ID returns the id of the span that a context belongs to, or 0 if there is none that is
// reported. It is the first argument of the span's probes.
func ID(ctx context.Context) uint64 {
	if c, ok := ctx.Value(scopeKey{}).(*scope); ok {
		return c.id
	}
	return 0
}
