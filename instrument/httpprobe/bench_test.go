package httpprobe

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/proberec"

	"github.com/stretchr/testify/require"
)

// BenchmarkHandler measures what a mux takes by itself, with idle probes around it, and while it is
// observed, with a request and a ResponseWriter of a server.
func BenchmarkHandler(b *testing.B) {
	p := eventtest.Provider(b, "httpprobe")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(http.ResponseWriter, *http.Request) {})
	serve := func(name string, handler http.Handler) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			inServer(b, func(w http.ResponseWriter, r *http.Request) {
				given := *r
				for b.Loop() {
					*r = given // without what the mux has set
					handler.ServeHTTP(w, r)
				}
			})
		})
	}
	probed := NewServer(p).Handler(mux)
	serve("bare", mux)
	serve("idle", probed)
	defer p.Observe(func(*stapsdt.Event) {})()
	serve("observed", probed)
}

// inServer calls a handler with a request of a server, and the server's ResponseWriter.
func inServer(t testing.TB, handler http.HandlerFunc) {
	t.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	answer, err := server.Client().Get(server.URL + "/items/7")
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
}

// TestOneAllocation: a request that is reported takes one allocation, for the exchange, the copy of
// the request, the ResponseWriter, the context and the span together.
func TestOneAllocation(t *testing.T) {
	testenv.NotRaced(t, "the race detector allocates")
	p := eventtest.Provider(t, "httpprobe")
	flight := proberec.New(1<<20, p)
	flight.Start()
	defer flight.Stop()
	probed := NewServer(p).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	inServer(t, func(w http.ResponseWriter, r *http.Request) {
		if n := testing.AllocsPerRun(100, func() { probed.ServeHTTP(w, r) }); n != 1 {
			t.Errorf("%v allocations", n)
		}
	})
}
