package httpprobe

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

const inFlight = 20_000

// flight has n operations in flight at once, and returns what each takes of memory meanwhile,
// by how much the number of threads grows, and what is left of each afterwards. operation
// calls wait when it is in flight. None of the package's goroutines may be there then.
func flight(t *testing.T, n int, operation func(wait func())) (bytes int64, threads int, left int64) {
	var begun, ended sync.WaitGroup
	release := make(chan struct{})
	heap, before := eventtest.LiveHeap(), eventtest.Threads()
	begun.Add(n)
	for range n {
		ended.Go(func() {
			operation(func() {
				begun.Done()
				<-release
			})
		})
	}
	begun.Wait()
	require.Zero(t, testenv.Goroutines())
	bytes, threads = (eventtest.LiveHeap()-heap)/int64(n), eventtest.Threads()-before
	close(release)
	ended.Wait()
	return bytes, threads, (eventtest.LiveHeap() - heap) / int64(n)
}

// TestInFlight: what a request takes while it is in flight and reported is bounded, and
// released, and it has no goroutine. The bounds are those of SECURITY.md. With -short, the
// memory is not measured.
func TestInFlight(t *testing.T) {
	p := eventtest.Provider(t, "httpprobe")
	server := NewServer(p)
	client := NewClient(p)
	for name, test := range map[string]struct {
		operation func(wait func())
		bound     int64
	}{
		"server": {func(wait func()) {
			server.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { wait() })).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		}, 1700},
		"client": {func(wait func()) {
			answer, err := client.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
				wait()
				return &http.Response{Body: io.NopCloser(strings.NewReader("text"))}, nil
			})).RoundTrip(httptest.NewRequest("GET", "/", nil))
			if err == nil {
				answer.Body.Close()
			}
		}, 1600},
		"response": {func(wait func()) {
			r := httptest.NewRequest("GET", "/", nil)
			answer, err := client.Transport(&legacy{roundTripper: func(r *http.Request) (*http.Response, error) {
				return &http.Response{Body: io.NopCloser(strings.NewReader("text"))}, nil
			}}).RoundTrip(r)
			wait()
			if err == nil {
				answer.Body.Close()
			}
		}, 2000},
	} {
		t.Run(name, func(t *testing.T) {
			var events atomic.Int64
			stop := p.Observe(func(*stapsdt.Event) { events.Add(1) })
			flight(t, 100, test.operation)
			stop()
			require.EqualValues(t, 200, events.Load(), "a start and an end of each")
		})
		t.Run(name+" memory", func(t *testing.T) {
			testenv.Measures(t, "the memory of 20,000 requests")
			testenv.NotRaced(t, "the detector takes memory, and has no more than 8128 goroutines")
			flight(t, inFlight, test.operation) // which makes stacks and threads
			untraced, _, leftUntraced := flight(t, inFlight, test.operation)
			stop := p.Observe(func(*stapsdt.Event) {})
			traced, threads, left := flight(t, inFlight, test.operation)
			stop()
			testenv.Figure(t, "a request that is reported", float64(traced-untraced), float64(test.bound), "bytes")
			testenv.Figure(t, "threads", float64(threads), 4, "threads")
			testenv.Figure(t, "a request that has ended", float64(left-leftUntraced), 10, "bytes")
		})
	}
}
