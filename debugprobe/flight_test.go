package debugprobe

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestInFlight: no fire waits for viewers, as many as there may be, whose clients accept nothing and whose buffers and histograms are
// full. They have no goroutine but that of their request and no descriptor, while many operations are in flight. TestPending and
// TestGroups bound their memory.
func TestInFlight(t *testing.T) {
	descriptors := testenv.Descriptors()
	others := testenv.Goroutines() // of earlier tests' streams, which may not have ended
	p := newProvider(t)
	start := stapsdt.NewProbe3[uint64, string, string](p, "start", "id", "text", "group")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	writers := make([]*stuck, maxViewers)
	for i := range writers {
		w := newStuck()
		writers[i] = w
		go func() {
			r := httptest.NewRequest("GET", "/events?rate=1000&value=id&by=group&provider="+p.Name(), nil).WithContext(ctx)
			Handler().ServeHTTP(w, r)
			done <- struct{}{}
		}()
	}
	require.Eventually(t, func() bool { return viewers.Load() == maxViewers && start.Enabled() }, wait, time.Millisecond)
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
	big := strings.Repeat("\x01", 1000)
	for id := range uint64(2000) {
		start.Fire(id, big, string(rune('A'+id%64)))
	}
	require.LessOrEqual(t, testenv.Goroutines(), others)
	require.LessOrEqual(t, testenv.Descriptors(), descriptors)
	cancel()
	for _, w := range writers {
		close(w.release)
		<-done
	}
	require.Zero(t, viewers.Load())
}
