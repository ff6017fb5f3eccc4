package span

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/debugprobe"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/proberec"

	"github.com/stretchr/testify/require"
)

// spanBytes is what a span that is reported keeps until it is unreachable: see Span.
const spanBytes = 64

// threads returns the number of threads of this process, or 0 where the system does not tell.
func threads() int {
	entries, _ := os.ReadDir("/proc/self/task")
	return len(entries)
}

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

// TestInFlight: spans in flight, while they are observed, recorded and watched, keep their 64
// bytes, no goroutine and no thread, and nothing when they have ended.
func TestInFlight(t *testing.T) {
	testenv.NotRaced(t, "the detector has memory of its own for each object")
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
	bytes, goroutines, before := heap(), runtime.NumGoroutine(), threads()
	fly()
	require.LessOrEqual(t, heap()-bytes, int64(spans*spanBytes+256<<10)) // the stream's two buffers come and go
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
	require.LessOrEqual(t, threads(), before+2)
	land()
	require.LessOrEqual(t, heap()-bytes, int64(256<<10))
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
	require.LessOrEqual(t, heap()-bytes, int64(spans*spanBytes+64<<10))
	clear(contexts)
	require.LessOrEqual(t, heap()-bytes, int64(64<<10))
	runtime.KeepAlive(contexts)
}
