package httpprobe

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/probetest"

	"github.com/stretchr/testify/require"
)

// TestResponseAgain: a transport may return the same response again and again. Its body does not
// grow with each fetch, also not through several transports.
func TestResponseAgain(t *testing.T) {
	p := eventtest.Provider(t, "again")
	probetest.Record(t, p)
	answer := &http.Response{Body: io.NopCloser(struct{ io.Reader }{strings.NewReader("")})}
	answers := roundTripper(func(*http.Request) (*http.Response, error) { return answer, nil })
	client := NewClient(p)
	c := client.Transport(client.Transport(answers))
	for range 100 {
		r, err := http.NewRequest("GET", "http://x/", nil)
		require.NoError(t, err)
		got, err := c.RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, got.Body.Close())
	}
	depth := 0
	for b := answer.Body; ; depth++ {
		mine, ok := b.(*body)
		if !ok {
			break
		}
		b = mine.ReadCloser
	}
	require.Equal(t, 2, depth)
}

// TestResponseOfSeveral: nothing is written to a response without a body, which several
// goroutines may get at once. The race detector sees it.
func TestResponseOfSeveral(t *testing.T) {
	p := eventtest.Provider(t, "several")
	probetest.Record(t, p)
	answer := &http.Response{Body: http.NoBody}
	c := NewClient(p).Transport(roundTripper(func(*http.Request) (*http.Response, error) { return answer, nil }))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				r, _ := http.NewRequest("GET", "http://x/", nil)
				_, err := c.RoundTrip(r)
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
