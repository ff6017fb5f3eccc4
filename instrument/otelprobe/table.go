package otelprobe

import (
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// spanTable holds the spans whose start was reported and that have not ended. OnEnd gets a
// copy of a span, so only the IDs connect it to its start. A span that is never ended is
// forgotten when it is garbage.
type spanTable struct {
	count atomic.Int64
	spans sync.Map // spanKey to *entry; unlike a map, it shrinks
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

// entry describes a running span. It must not refer to the span.
type entry struct {
	of      *spanTable
	key     spanKey
	garbage runtime.Cleanup
}

// ofSDK reports whether a span is one of the SDK's own types, which are pointers. The methods of
// any other type are the program's: a processor may pass on a span of its own that contains the
// SDK's span.
func ofSDK(s sdktrace.ReadOnlySpan) bool {
	t := reflect.TypeOf(s)
	return t != nil && t.Kind() == reflect.Pointer && t.Elem().PkgPath() == sdkPath
}

var sdkPath = reflect.TypeFor[sdktrace.TracerProvider]().PkgPath()

// add adds a span of the SDK.
func (r *spanTable) add(s sdktrace.ReadWriteSpan) {
	e := &entry{of: r, key: keyOf(s)}
	// SAFETY: AddCleanup only requires that the pointer points to an object of the heap,
	// whatever its type: the type of the SDK's spans has no name here. The pointer is not used
	// to read or write the object.
	e.garbage = runtime.AddCleanup((*byte)(reflect.ValueOf(s).UnsafePointer()), (*entry).forget, e)
	if _, known := r.spans.Swap(e.key, e); !known {
		r.count.Add(1)
	}
	runtime.KeepAlive(s)
}

// remove removes a span, and reports whether it was there.
func (r *spanTable) remove(key spanKey) bool {
	e, found := r.spans.LoadAndDelete(key)
	if found {
		r.count.Add(-1)
		e.(*entry).garbage.Stop()
	}
	return found
}

// forget removes a span that is garbage.
func (e *entry) forget() {
	if e.of.spans.CompareAndDelete(e.key, e) {
		e.of.count.Add(-1)
	}
}
