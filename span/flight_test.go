package span

import (
	"context"
	"runtime"
	"testing"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// spanBytes is what a span that is reported keeps until it is unreachable: see Span.
const spanBytes = 64

// TestInFlight: spans in flight are objects of 64 bytes, and have no goroutine. They keep nothing when they have ended.
func TestInFlight(t *testing.T) {
	p := eventtest.Provider(t, "span")
	query := NewOperation[start, end](p, "query")
	ctx := t.Context()
	eventtest.InFlight(t, p, spanBytes, func() func() {
		_, s := query.Start(ctx, start{"SELECT"})
		return func() { s.End(end{}, nil) }
	})
	require.LessOrEqual(t, unsafe.Sizeof(Span[end]{}), uintptr(spanBytes))
	testenv.NotRaced(t, "the detector allocates")
	testenv.NotSanitized(t, "the address sanitizer has variables escape")
	testenv.NeedsOptimization(t, "Start is not inlined, and its arguments are allocated")
	defer p.Observe(func(*stapsdt.Event) {})()
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		_, s := query.Start(ctx, start{"SELECT"})
		s.End(end{}, nil)
	}), 1.0)
}

// TestNeverEndedInFlight: spans that are never ended keep as much, until the program drops them.
func TestNeverEndedInFlight(t *testing.T) {
	testenv.Measures(t, "the memory of spans")
	testenv.NotRaced(t, "the detector has memory of its own for each object")
	const spans = 20_000
	p := eventtest.Provider(t, "span")
	query := NewOperation[start, end](p, "query")
	defer p.Observe(func(*stapsdt.Event) {})()
	contexts := make([]context.Context, spans)
	bytes := eventtest.LiveHeap()
	for i := range contexts {
		contexts[i], _ = query.Start(t.Context(), start{"SELECT"})
	}
	testenv.Figure(t, "a span", float64(eventtest.LiveHeap()-bytes)/spans, spanBytes+4, "bytes")
	clear(contexts)
	testenv.Figure(t, "spans that were dropped", float64(eventtest.LiveHeap()-bytes), 64<<10, "bytes")
	runtime.KeepAlive(contexts)
}
