package eventtest

import (
	"runtime"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"

	"github.com/stretchr/testify/require"
)

// Flight is the operations that InFlight has at once.
const Flight = 20_000

// InFlight begins operations until Flight are in flight, and ends them, first untraced, and then
// with an observer of the provider. begin returns the function that ends the operation.
//
// It requires that those that are observed keep at most limit bytes each more, no goroutine and
// no thread, and that all of it is released when they have ended, and when the observer has gone
// before they end.
func InFlight(t *testing.T, p *stapsdt.Provider, limit int, begin func() (end func())) {
	t.Helper()
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
	const slack = 16 * Flight

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

	each := float64(traced.bytes-untraced.bytes) / Flight
	t.Logf("%.0f bytes each untraced, %.0f more traced", float64(untraced.bytes-empty.bytes)/Flight, each)
	require.LessOrEqual(t, each, float64(limit))
	require.LessOrEqual(t, traced.goroutines, untraced.goroutines)
	require.LessOrEqual(t, detached.threads, untraced.threads+2)
	require.LessOrEqual(t, ended.bytes, empty.bytes+slack)
	require.LessOrEqual(t, detached.bytes, empty.bytes+slack)
}

// use is the memory and the goroutines and threads of a program.
type use struct {
	bytes               int64 // of the heap
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
		if time.Since(began) > time.Minute {
			stacks := make([]byte, 1<<16)
			t.Fatalf("%d goroutines instead of %d:\n%s", runtime.NumGoroutine(), goroutines, stacks[:runtime.Stack(stacks, true)])
		}
	}
}
