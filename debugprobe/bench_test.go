package debugprobe

import (
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"

	"github.com/stretchr/testify/require"
)

// BenchmarkWatched measures what a viewer adds to a fire.
func BenchmarkWatched(b *testing.B) {
	for _, c := range []struct{ name, query string }{
		{"filtered", "filter=" + url.QueryEscape(`status >= 500 && strings.HasPrefix(path, "/api/")`)},
		{"counted", "rate=1"},
		{"histogram", "value=elapsed&by=path&rate=1"},
		{"sent", "rate=1000"},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := newProvider(b)
			probe := stapsdt.NewProbe3[string, int32, time.Duration](p, "event", "path", "status", "elapsed")
			r, err := parse(httptest.NewRequest("GET", "/events?provider="+url.QueryEscape(p.Name())+"&"+c.query, nil))
			require.NoError(b, err)
			v := newViewer(r, "data: ", "\n\n")
			stop := v.start()
			defer stop()
			if c.name == "sent" {
				v.bucket.left = 1e18
				v.bucket.rate = 1e18
			}
			i := 0
			for b.Loop() {
				probe.Fire("/api/items", 200, time.Millisecond)
				if i++; i%1000 == 0 {
					v.mu.Lock()
					v.pending = v.pending[:0]
					v.mu.Unlock()
				}
			}
		})
	}
}
