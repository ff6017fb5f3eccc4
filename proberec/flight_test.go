package proberec

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestInFlight: a recorder has no goroutine or descriptor, however many operations are in flight.
func TestInFlight(t *testing.T) { flight(t, func(string, float64) {}) }

// TestRecorderMemory: a recorder takes its size, however many operations are in flight. It keeps its memory when it is
// stopped, and releases it when it is dropped.
func TestRecorderMemory(t *testing.T) {
	testenv.Measures(t, "the memory of a recorder")
	testenv.NotRaced(t, "the detector has memory of its own")
	bytes := eventtest.LiveHeap()
	flight(t, func(name string, most float64) {
		testenv.Figure(t, name, float64(eventtest.LiveHeap()-bytes), most, "bytes")
	})
}

// flight records many operations that are in flight at once, by more threads than can own a shard, and calls figure at each
// stage of the recorder's life.
func flight(t *testing.T, figure func(name string, most float64)) {
	const operations, size = 20_000, 1 << 20
	p := stapsdt.NewProvider("p")
	defer p.Close()
	start := stapsdt.NewProbe2[uint64, string](p, "start", "id", "text")
	end := stapsdt.NewProbe1[uint64](p, "end", "id")
	descriptors := testenv.Descriptors()
	r := New(size, p)
	r.Start()
	fire := func(f func(id uint64)) {
		const threads = 4
		var running, done sync.WaitGroup
		running.Add(threads)
		for from := range uint64(threads) {
			done.Go(func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				running.Done()
				running.Wait()
				for id := from; id < operations; id += threads {
					f(id)
				}
			})
		}
		done.Wait()
	}
	fire(func(id uint64) { start.Fire(id, "SELECT") })
	figure("a recorder", size+128<<10)
	// The recorder looks for shards of threads that have ended at most once a second, in a goroutine that ends soon.
	require.Eventually(t, func() bool { return testenv.Goroutines() == 0 }, testenv.Patience, time.Millisecond)
	require.LessOrEqual(t, testenv.Descriptors(), descriptors)
	fire(func(id uint64) { end.Fire(id) })
	r.Stop()
	figure("a recorder that is stopped", size+128<<10)
	runtime.KeepAlive(r)
	r = nil
	figure("a recorder that is dropped", 128<<10)
}

// TestWhileWriting: no lock is held while the writer, which is the program's, runs.
func TestWhileWriting(t *testing.T) {
	p := stapsdt.NewProvider("p")
	defer p.Close()
	probe := stapsdt.NewProbe1[int](p, "event", "n")
	r := New(1, p)
	r.Start()
	defer r.Stop()
	probe.Fire(1)
	n, err := r.WriteJSON(writerFunc(func(b []byte) (int, error) {
		for i := range 100_000 { // more than the recorder has room for
			probe.Fire(i)
		}
		r.Stop()
		r.Start()
		return len(b), nil
	}))
	require.NoError(t, err)
	require.Positive(t, n)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
