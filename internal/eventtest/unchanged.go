package eventtest

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"

	"github.com/stretchr/testify/require"
)

// Log records a program's observations, in lines. It is safe for concurrent use.
type Log struct {
	mu    sync.Mutex
	lines []string
}

// Addf adds a line.
func (l *Log) Addf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// Lines returns the lines so far.
func (l *Log) Lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// Unchanged runs a program while nothing traces and while the provider is observed, and
// requires that its log and the value of its panic are the same. It also requires that all goroutines that the
// program starts end, and that an event was observed.
func Unchanged(t *testing.T, p *stapsdt.Provider, program func(*Log)) {
	t.Helper()
	untraced := watch(t, program)
	events := Observe(t, p)
	observed := watch(t, program)
	require.Equal(t, untraced, observed)
	require.NotEmpty(t, untraced, "the program has logged nothing")
	require.NotZero(t, events(), "nothing was observed")
}

// Observe observes a provider until the test ends. The result returns the number of events.
func Observe(t testing.TB, p *stapsdt.Provider) (events func() int64) {
	var n atomic.Int64
	t.Cleanup(p.Observe(func(*stapsdt.Event) { n.Add(1) }))
	return n.Load
}

// watch runs a program and returns its log.
func watch(t *testing.T, program func(*Log)) []string {
	t.Helper()
	var seen Log
	before := runtime.NumGoroutine()
	done := make(chan struct{})
	go func() { // the program may end this goroutine
		defer close(done)
		defer func() {
			if value := recover(); value != nil {
				seen.Addf("panic: %v", value)
			}
		}()
		program(&seen)
	}()
	<-done
	Settle(t, before)
	return seen.Lines()
}

// LiveHeap returns the bytes of the heap that are in use when all garbage is collected.
func LiveHeap() int64 {
	var stats runtime.MemStats
	for range 3 { // cleanups run after a collection, and make more garbage
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc + stats.StackInuse)
}
