package recorder

import (
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// turn is what TestConversion knows of an event: the system's clock before it and after it.
type turn struct{ before, after time.Duration }

// takeTurns lets two threads record the number of each turn, for some time.
func takeTurns(w *Writer, probe uint32, most int, each time.Duration) []turn {
	turns := make([]turn, most)
	var now atomic.Int64
	var group sync.WaitGroup
	start := clock.Now()
	for thread := range int64(2) {
		group.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for n := thread; n < int64(most); n += 2 {
				for now.Load() < n {
					runtime.Gosched()
				}
				for clock.Now() < start+time.Duration(n)*each {
				}
				turns[n].before = clock.Now()
				fireAt(w, probe, uint64(n))
				turns[n].after = clock.Now()
				now.Store(n + 1)
			}
		})
	}
	group.Wait()
	return turns
}

// TestConversion measures how far the time of an event, which the reader computes from the counter, is
// outside of the two readings of the system's clock between which the event was recorded. Two threads
// take turns, so that it also measures by how much events that follow each other on different
// threads can appear in another order.
func TestConversion(t *testing.T) {
	testenv.Measures(t, "the times of events")
	testenv.NotRaced(t, "the detector makes each event slower than what is measured")
	if !invariantCounter() {
		t.Skip("this processor has no counter that a recording could use as its clock")
	}
	const events, each = 200_000, 20 * time.Microsecond
	w := newWriter(t, 64<<20, Options{Counter: true})
	probe, ok := w.AddProbe(integers(1))
	require.True(t, ok)
	turns := takeTurns(w, probe, events, each)
	w.Close()

	r := eventtest.Read(t, w)
	require.Equal(t, recording.Counter, r.Head().Clock)
	var outside, distance []time.Duration // and from the middle between the two readings
	swapped, next := 0, uint64(0)
	for range turns {
		e, err := r.Next()
		require.NoError(t, err)
		n := e.Word(0)
		outside = append(outside, max(turns[n].before-e.Monotonic, e.Monotonic-turns[n].after, 0))
		distance = append(distance, (e.Monotonic - (turns[n].before+turns[n].after)/2).Abs())
		if n != next {
			swapped++
		}
		next = n + 1
	}
	_, err := r.Next()
	require.ErrorIs(t, err, io.EOF)
	slices.Sort(outside)
	slices.Sort(distance)
	const most, p99 = events - 1, events * 99 / 100
	t.Logf("%d events, of which %d are not in their order; from the middle: median %v, 99 %% %v; outside: 99 %% %v, most %v",
		events, swapped, distance[events/2], distance[p99], outside[p99], outside[most])
	// What is computed from a reading of the clocks is wrong by as much as the thread was interrupted in it.
	testenv.Figure(t, "median from the middle", float64(distance[events/2]), 250, "ns")
	testenv.Figure(t, "99 % outside", float64(outside[p99]), 1000, "ns")
	testenv.Figure(t, "most outside", float64(outside[most].Milliseconds()), 50, "ms")
	testenv.Figure(t, "not in their order", 100*float64(swapped)/events, 1, "%")
}
