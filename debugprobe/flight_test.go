package debugprobe

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// entries returns the number of files in a directory of /proc, or 0 where there is none.
func entries(path string) int {
	list, _ := os.ReadDir(path)
	return len(list)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// viewerBytes is the most memory that a viewer takes: its buffers, and a histogram of 32 groups.
const viewerBytes = 1 << 20

// TestInFlight: as many viewers as there may be, with full buffers and histograms, have no goroutine but that of their
// request and no descriptor, while many operations are in flight.
func TestInFlight(t *testing.T) {
	descriptors := entries("/proc/self/fd")
	others := testenv.Goroutines() // of earlier tests' streams, which may not have ended
	_, leave := fullViewers(t, 2000)
	require.LessOrEqual(t, testenv.Goroutines(), others)
	require.LessOrEqual(t, entries("/proc/self/fd"), descriptors)
	leave()
	require.Zero(t, viewers.Load())
}

// TestViewerMemory: what viewers with full buffers and histograms keep is bounded, does not depend on how many operations are
// in flight, and is released when they have gone.
func TestViewerMemory(t *testing.T) {
	testenv.Measures(t, "the memory of the page's viewers")
	testenv.NotRaced(t, "the detector has memory of its own")
	bytes := heap()
	fire, leave := fullViewers(t, 20_000)
	kept := heap() - bytes
	fire()
	testenv.Figure(t, "a viewer", float64(kept)/maxViewers, viewerBytes, "bytes")
	testenv.Figure(t, "20,000 more operations", float64(heap()-bytes-kept), 256<<10, "bytes")
	leave()
	testenv.Figure(t, "viewers that have gone", float64(heap()-bytes), 256<<10, "bytes")
}

// fullViewers opens as many streams as there may be, whose clients accept nothing, and fires operations until their buffers
// are full. It returns functions that fire as many operations again and that end the streams.
func fullViewers(t *testing.T, operations uint64) (fire, leave func()) {
	p := newProvider(t)
	start := stapsdt.NewProbe3[uint64, string, string](p, "start", "id", "text", "group")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	writers := make([]*stuck, maxViewers)
	for i := range writers {
		w := &stuck{header: http.Header{}, wrote: make(chan struct{}), release: make(chan struct{})}
		writers[i] = w
		go func() {
			r := httptest.NewRequest("GET", "/events?rate=1000&value=id&by=group&provider="+p.Name(), nil).WithContext(ctx)
			Handler().ServeHTTP(w, r)
			done <- struct{}{}
		}()
	}
	require.Eventually(t, func() bool { return viewers.Load() == maxViewers && start.Observed() }, wait, time.Millisecond)
	big := strings.Repeat("\x01", 1000)
	fire = func() {
		for id := range operations {
			start.Fire(id, big, string(rune('A'+id%64)))
		}
	}
	for _, w := range writers {
		for stuck := false; !stuck; {
			start.Fire(0, "first", "")
			select {
			case <-w.wrote:
				stuck = true
			case <-time.After(time.Millisecond):
			}
		}
	}
	fire()
	return fire, func() {
		cancel()
		for _, w := range writers {
			close(w.release)
			<-done
		}
	}
}
