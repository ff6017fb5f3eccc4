package httpprobe

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
)

// BenchmarkHandler measures what a handler takes by itself, with idle probes around it, and
// while it is observed.
func BenchmarkHandler(b *testing.B) {
	p := eventtest.Provider(b, "httpprobe")
	bare := http.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
	serve := func(name string, handler http.Handler) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				handler.ServeHTTP(w, r)
			}
		})
	}
	probed := NewServer(p).Handler(bare)
	serve("bare", bare)
	serve("idle", probed)
	defer p.Observe(func(*stapsdt.Event) {})()
	serve("observed", probed)
}

// BenchmarkRequest measures a request of a client to a server in the same process.
func BenchmarkRequest(b *testing.B) {
	p := eventtest.Provider(b, "httpprobe")
	handler := http.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	get := func(name string, handler http.Handler, wrap func(http.RoundTripper) http.RoundTripper) {
		b.Run(name, func(b *testing.B) {
			server := httptest.NewServer(handler)
			defer server.Close()
			client := &http.Client{Transport: wrap(server.Client().Transport)}
			b.ReportAllocs()
			for range b.N {
				answer, err := client.Get(server.URL)
				if err != nil {
					b.Fatal(err)
				}
				answer.Body.Close()
			}
		})
	}
	probed := NewServer(p).Handler(handler)
	through := NewClient(p).Transport
	get("bare", handler, func(t http.RoundTripper) http.RoundTripper { return t })
	get("idle", probed, through)
	defer p.Observe(func(*stapsdt.Event) {})()
	get("observed", probed, through)
}
