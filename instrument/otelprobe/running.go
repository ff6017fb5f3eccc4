package otelprobe

import (
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// running holds the spans whose start was reported and that have not ended. What OnEnd gets
// of a span is a copy, so that only the ids connect it to its start. A span that is never
// ended is forgotten when it is garbage.
type running struct {
	count atomic.Int64 // of spans
	mu    sync.Mutex
	spans map[spanKey]*entry
}

// spanKey identifies a span.
type spanKey struct {
	trace trace.TraceID
	span  trace.SpanID
}

func keyOf(s sdktrace.ReadOnlySpan) spanKey {
	sc := s.SpanContext()
	return spanKey{sc.TraceID(), sc.SpanID()}
}

// entry is a running span. It must not refer to it.
type entry struct {
	of      *running
	key     spanKey
	garbage runtime.Cleanup
}

// add adds a span. It returns false if it could not learn that the span is garbage.
func (r *running) add(s sdktrace.ReadWriteSpan) bool {
	v := reflect.ValueOf(s)
	if v.Kind() != reflect.Pointer || v.IsNil() { // the SDK's is a pointer
		return false
	}
	e := &entry{of: r, key: keyOf(s)}
	// SAFETY: AddCleanup needs no more of the pointer than that it points to an object of the
	// heap, whatever its type: the type of the SDK's spans has no name here. The pointer is
	// not used to read or write the object.
	e.garbage = runtime.AddCleanup((*byte)(v.UnsafePointer()), (*entry).forget, e)
	r.mu.Lock()
	r.spans[e.key] = e
	r.count.Store(int64(len(r.spans)))
	r.mu.Unlock()
	runtime.KeepAlive(s)
	return true
}

// remove removes a span, and reports whether it was there.
func (r *running) remove(key spanKey) bool {
	r.mu.Lock()
	e := r.spans[key]
	delete(r.spans, key)
	r.count.Store(int64(len(r.spans)))
	r.mu.Unlock()
	if e == nil {
		return false
	}
	e.garbage.Stop()
	return true
}

// forget removes a span that is garbage.
func (e *entry) forget() {
	e.of.mu.Lock()
	defer e.of.mu.Unlock()
	if e.of.spans[e.key] == e {
		delete(e.of.spans, e.key)
		e.of.count.Store(int64(len(e.of.spans)))
	}
}
