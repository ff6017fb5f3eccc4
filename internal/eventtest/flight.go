package eventtest

import (
	"runtime"
	"runtime/pprof"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// Flight is the number of operations that InFlight has at once when it measures them.
const Flight = 20_000

// InFlight begins operations and ends them, with an observer of the provider. begin returns the function that ends the
// operation. It requires that events were observed and that the operations have no goroutine of the library's.
//
// The rest is measured, and so left out with -short: operations that are observed keep at most limit bytes each more than
// untraced operations, and no thread. They release all of it when they have ended, even if the observer has gone before.
func InFlight(t *testing.T, p *stapsdt.Provider, limit int, begin func() (end func())) {
	t.Helper()
	few := make([]func(), 100)
	others := testenv.Goroutines()
	var events atomic.Int64
	stop := p.Observe(func(*stapsdt.Event) { events.Add(1) })
	for i := range few {
		few[i] = begin()
	}
	require.LessOrEqual(t, testenv.Goroutines(), others)
	for _, end := range few {
		end()
	}
	stop()
	require.GreaterOrEqual(t, events.Load(), int64(len(few)))
	t.Run("memory", func(t *testing.T) { measure(t, p, limit, begin) })
}

// Held is for an operation that needs a goroutine. It calls f and returns when f has called wait, which returns when end is
// called. end returns after f has.
func Held(f func(wait func())) (end func()) {
	inside, leave, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(left)
		f(func() {
			close(inside)
			<-leave
		})
	}()
	<-inside
	return func() {
		close(leave)
		<-left
	}
}

// measure is the part of InFlight that is left out with -short.
func measure(t *testing.T, p *stapsdt.Provider, limit int, begin func() (end func())) {
	testenv.Measures(t, "the memory of 20,000 operations in flight")
	testenv.NotRaced(t, "the detector has memory of its own for each object")
	observe := func() (stop func()) { return p.Observe(func(*stapsdt.Event) {}) }
	ends := make([]func(), Flight)
	fly := func() {
		for i := range ends {
			ends[i] = begin()
		}
	}
	land := func() {
		for i, end := range ends {
			end()
			ends[i] = nil
		}
	}
	for range 2 { // the pools and tables that the program has without the probes may stay
		fly()
		land()
	}
	empty := usage()

	fly()
	untraced := usage()
	land()
	Settle(t, empty.goroutines)
	stop := observe()
	fly()
	traced := usage()
	land()
	Settle(t, empty.goroutines)
	ended := usage()
	fly()
	stop()
	land()
	Settle(t, empty.goroutines)
	detached := usage()
	runtime.KeepAlive(ends)

	each := func(more, less use) float64 { return float64(more.bytes-less.bytes) / Flight }
	t.Logf("%.0f bytes each untraced", each(untraced, empty))
	testenv.Figure(t, "an operation", each(traced, untraced), float64(limit), "bytes")
	testenv.Figure(t, "an operation that has ended", each(ended, empty), 16, "bytes")
	testenv.Figure(t, "an operation whose observer has gone", each(detached, empty), 16, "bytes")
	testenv.Figure(t, "threads", float64(detached.threads-untraced.threads), 4, "threads")
}

// use is the memory and the goroutines and threads of a program.
type use struct {
	bytes               int64 // bytes of the heap
	goroutines, threads int
}

func usage() use {
	for range 3 { // cleanups run after the first collection, and pools are empty after two
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return use{int64(m.HeapAlloc), runtime.NumGoroutine(), pprof.Lookup("threadcreate").Count()}
}

// Settle waits until there are at most the given number of goroutines.
func Settle(t testing.TB, goroutines int) {
	t.Helper()
	for began := time.Now(); runtime.NumGoroutine() > goroutines; time.Sleep(time.Millisecond) {
		if time.Since(began) > testenv.Patience {
			stacks := make([]byte, 1<<16)
			t.Fatalf("%d goroutines instead of %d:\n%s", runtime.NumGoroutine(), goroutines, stacks[:runtime.Stack(stacks, true)])
		}
	}
}
