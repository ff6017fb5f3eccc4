package httpprobe

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

const inFlight = 20_000

// flight has operations in flight at once, and returns what each takes of memory meanwhile,
// by how much the number of threads grows, and what is left of each afterwards. operation
// calls wait when it is in flight.
func flight(operation func(wait func())) (bytes int64, threads int, left int64) {
	var begun, ended sync.WaitGroup
	release := make(chan struct{})
	heap, before := eventtest.LiveHeap(), eventtest.Threads()
	begun.Add(inFlight)
	for range inFlight {
		ended.Go(func() {
			operation(func() {
				begun.Done()
				<-release
			})
		})
	}
	begun.Wait()
	bytes, threads = (eventtest.LiveHeap()-heap)/inFlight, eventtest.Threads()-before
	close(release)
	ended.Wait()
	return bytes, threads, (eventtest.LiveHeap() - heap) / inFlight
}

// TestInFlight: what a request takes while it is in flight and reported is bounded, and
// released. The bounds are those of SECURITY.md.
func TestInFlight(t *testing.T) {
	testenv.Long(t, "it has 20,000 requests in flight")
	testenv.NotRaced(t, "the detector takes memory, and has no more than 8128 goroutines")
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
			flight(test.operation) // which makes stacks and threads
			untraced, _, leftUntraced := flight(test.operation)
			stop := p.Observe(func(*stapsdt.Event) {})
			traced, threads, left := flight(test.operation)
			stop()
			t.Logf("%d bytes, %d while it is reported, and %d threads; %d and %d are left", untraced, traced, threads, leftUntraced, left)
			require.LessOrEqual(t, traced-untraced, test.bound)
			require.LessOrEqual(t, threads, 2)
			require.LessOrEqual(t, left-leftUntraced, int64(10))
		})
	}
}
