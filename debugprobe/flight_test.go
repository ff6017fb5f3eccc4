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

// TestInFlight: as many viewers as there may be, with full buffers and histograms, take no thread
// and no goroutine but the one of their request, and nothing when they have gone. What they keep
// does not depend on how many operations are in flight.
func TestInFlight(t *testing.T) {
	testenv.NotRaced(t, "the detector has memory of its own")
	const operations = 20_000
	p := newProvider(t)
	start := stapsdt.NewProbe3[uint64, string, string](p, "start", "id", "text", "group")
	bytes, goroutines := heap(), runtime.NumGoroutine()
	threads, descriptors := entries("/proc/self/task"), entries("/proc/self/fd")
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
	fire := func() {
		for id := range uint64(operations) {
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
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+maxViewers)
	require.LessOrEqual(t, entries("/proc/self/task"), threads+2)
	require.LessOrEqual(t, entries("/proc/self/fd"), descriptors)
	kept := heap() - bytes
	t.Logf("%d bytes for each viewer", kept/maxViewers)
	require.Less(t, kept, int64(maxViewers*viewerBytes))
	fire()
	require.LessOrEqual(t, heap()-bytes, int64(kept+256<<10))
	cancel()
	for _, w := range writers {
		close(w.release)
		<-done
	}
	require.LessOrEqual(t, heap()-bytes, int64(256<<10))
	runtime.KeepAlive(writers)
}
