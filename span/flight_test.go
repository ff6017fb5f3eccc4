package span

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/debugprobe"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/proberec"

	"github.com/stretchr/testify/require"
)

// spanBytes is what a span that is reported keeps until it is unreachable: see Span.
const spanBytes = 64

// watch opens the page's stream of a provider's events, and returns a function that closes it.
func watch(t *testing.T, p *stapsdt.Provider) (stop func()) {
	server := httptest.NewServer(debugprobe.Handler())
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/events?provider="+p.Name(), nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	lines := bufio.NewReader(answer.Body)
	_, err = lines.ReadString('\n') // the stream has begun, and is read from now on
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = lines.WriteTo(discard{})
	}()
	return func() {
		cancel()
		<-done
		answer.Body.Close()
		server.CloseClientConnections()
		server.Close()
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// TestInFlight: spans in flight, while they are observed, recorded and watched, are objects of 64 bytes, and have no
// goroutine.
func TestInFlight(t *testing.T) {
	flight(t, func(string, float64) {})
	require.LessOrEqual(t, unsafe.Sizeof(Span[end]{}), uintptr(spanBytes))
	testenv.NotRaced(t, "the detector allocates")
	testenv.NotSanitized(t, "the address sanitizer has variables escape")
	testenv.NeedsOptimization(t, "Start is not inlined, and its arguments are allocated")
	p := eventtest.Provider(t, "span")
	query := New[start, end](p, "query")
	defer p.Observe(func(*stapsdt.Event) {})()
	ctx := t.Context()
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		_, s := query.Start(ctx, start{"SELECT"})
		s.End(end{}, nil)
	}), 1.0)
}

// TestSpanMemory: spans in flight, while they are observed, recorded and watched, keep their 64 bytes, and nothing when they
// have ended.
func TestSpanMemory(t *testing.T) {
	testenv.Measures(t, "the memory of spans")
	testenv.NotRaced(t, "the detector has memory of its own for each object")
	before := 0.0
	flight(t, func(name string, most float64) {
		if name == "" {
			before = float64(heap())
			return
		}
		testenv.Figure(t, name, float64(heap())-before, most, "bytes")
	})
}

// flight has spans in flight, and calls figure with an empty name before they begin, and then at each stage.
func flight(t *testing.T, figure func(name string, most float64)) {
	const spans = 20_000
	p := stapsdt.NewProvider(strings.ToLower(t.Name()))
	defer p.Close()
	query := New[start, end](p, "query")
	seen := 0
	stopObserving := p.Observe(func(*stapsdt.Event) { seen++ })
	recorder := proberec.New(1, p)
	recorder.Start()
	stopWatching := watch(t, p)

	list := make([]*Span[end], spans)
	contexts := make([]context.Context, spans)
	fly := func() {
		for i := range list {
			contexts[i], list[i] = query.Start(t.Context(), start{"SELECT"})
		}
	}
	land := func() {
		for i, s := range list {
			s.End(end{}, nil)
			list[i], contexts[i] = nil, nil
		}
	}
	fly() // the page and the recorder have their buffers then
	land()
	figure("", 0)
	fly()
	figure("spans in flight", spans*spanBytes+256<<10) // the stream's two buffers come and go
	require.Zero(t, testenv.Goroutines())
	land()
	figure("spans that have ended", 256<<10)
	require.Equal(t, 4*spans, seen)
	runtime.KeepAlive(list)
	runtime.KeepAlive(contexts)

	stopWatching()
	recorder.Stop()
	stopObserving()
	ctx, s := query.Start(t.Context(), start{})
	require.Nil(t, s)
	require.Equal(t, t.Context(), ctx)
}

// TestNeverEndedInFlight: spans that are never ended keep as much, until the program drops them.
func TestNeverEndedInFlight(t *testing.T) {
	testenv.Measures(t, "the memory of spans")
	testenv.NotRaced(t, "the detector has memory of its own for each object")
	const spans = 20_000
	p := eventtest.Provider(t, "span")
	query := New[start, end](p, "query")
	defer p.Observe(func(*stapsdt.Event) {})()
	contexts := make([]context.Context, spans)
	bytes := heap()
	for i := range contexts {
		contexts[i], _ = query.Start(t.Context(), start{"SELECT"})
	}
	testenv.Figure(t, "a span", float64(heap()-bytes)/spans, spanBytes+4, "bytes")
	clear(contexts)
	testenv.Figure(t, "spans that were dropped", float64(heap()-bytes), 64<<10, "bytes")
	runtime.KeepAlive(contexts)
}
