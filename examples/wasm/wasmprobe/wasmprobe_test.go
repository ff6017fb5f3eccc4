//go:build linux

package wasmprobe

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// attach counts at function__entry.
func attach(t *testing.T, p *stapsdt.Provider) *tracetest.Counter {
	t.Helper()
	tracetest.NeedUprobes(t)
	notes, err := sdt.ReadFile(p.Path())
	require.NoError(t, err)
	note := notes[slices.IndexFunc(notes, func(n sdt.Probe) bool { return n.Name == "function__entry" })]
	counter, err := tracetest.CountUprobe(p.Path(), note.Offset)
	require.NoError(t, err)
	t.Cleanup(func() { counter.Close() })
	return counter
}

// TestCallStaysOnItsThread: while functions are reported, the host's functions are on one thread,
// although other goroutines want it, and when the outermost one has returned, trapped, or lost its
// tracer, its goroutine is free.
func TestCallStaysOnItsThread(t *testing.T) {
	p, probes := load(t)
	ctx := probes.Call(probes.Listen(t.Context()))
	stop := make(chan struct{})
	defer close(stop)
	for range 2 * runtime.GOMAXPROCS(0) {
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
					runtime.Gosched()
				}
			}
		}()
	}
	threads, detach := map[int]bool{}, func() {}
	m := instantiateWith(t, ctx, func() {
		for range 1000 {
			threads[unix.Gettid()] = true
			runtime.Gosched()
		}
		detach()
	})
	nap := func() int {
		clear(threads)
		_, err := m.ExportedFunction("nap").Call(ctx, 1)
		require.NoError(t, err)
		require.Zero(t, ctx.Value(callKey{}).(*call).depth)
		return len(threads)
	}
	moves := func() {
		for deadline := time.Now().Add(time.Minute); nap() < 2; {
			require.True(t, time.Now().Before(deadline), "it stays on its thread")
		}
	}
	moves()
	counter := attach(t, p)
	require.Equal(t, 1, nap())
	_, err := m.ExportedFunction("divide").Call(ctx, 1, 0)
	require.ErrorContains(t, err, "divide by zero")
	require.Zero(t, ctx.Value(callKey{}).(*call).depth)
	detach = func() { require.NoError(t, counter.Close()) }
	nap()
	moves()
}
