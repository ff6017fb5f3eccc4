package httpprobe

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/eventtest"

	"github.com/stretchr/testify/require"
)

// TestInFlight: what a request keeps while it is in flight and reported is bounded, and released, and it has no goroutine.
// The bounds are those of SECURITY.md. internal/test/law measures the stacks.
func TestInFlight(t *testing.T) {
	p := eventtest.Provider(t, "httpprobe")
	server, client := NewServer(p), NewClient(p)
	for name, test := range map[string]struct {
		limit     int
		operation func(wait func())
	}{
		"server": {1300, func(wait func()) {
			h := server.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { wait() }))
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		}},
		"client": {1200, func(wait func()) {
			next := roundTripper(func(*http.Request) (*http.Response, error) {
				wait()
				return &http.Response{Body: http.NoBody}, nil
			})
			_, err := client.Transport(next).RoundTrip(httptest.NewRequest("GET", "/", nil))
			require.NoError(t, err)
		}},
		"response": {1600, func(wait func()) {
			next := &legacy{roundTripper: func(*http.Request) (*http.Response, error) {
				return &http.Response{Body: httpBody("text")}, nil
			}}
			answer, err := client.Transport(next).RoundTrip(httptest.NewRequest("GET", "/", nil))
			require.NoError(t, err)
			wait()
			require.NoError(t, answer.Body.Close())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			eventtest.InFlight(t, p, test.limit, func() func() { return eventtest.Held(test.operation) })
		})
	}
}
