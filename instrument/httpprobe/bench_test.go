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
