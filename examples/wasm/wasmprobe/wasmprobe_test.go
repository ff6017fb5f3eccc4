//go:build linux

package wasmprobe

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// stubborn is a context whose values must not be asked for by a listener.
type stubborn struct {
	context.Context
	asked *int
}

func (s stubborn) Value(key any) any {
	*s.asked++
	return s.Context.Value(key)
}

// TestCallNumbers: functions have the number of their call, and its context is asked for no more
// values than untraced.
func TestCallNumbers(t *testing.T) {
	p, probes := load(t)
	asked := 0
	ctx := probes.Listen(t.Context())
	fib := instantiate(t, ctx).ExportedFunction("fib")
	call := func(ctx context.Context) (asks int) {
		before := asked
		_, err := fib.Call(ctx, 5)
		require.NoError(t, err)
		return asked - before
	}
	first, second := probes.Call(stubborn{ctx, &asked}), probes.Call(stubborn{ctx, &asked})
	untraced := call(first)
	ids := map[uint64]int{}
	defer p.Observe(func(e *stapsdt.Event) {
		require.Equal(t, []string{"module", "function", "index", "call"}, eventtest.Names(e.Probe()))
		ids[e.Arg(3).Uint64()]++
	})()
	require.Equal(t, untraced, call(first))
	require.Equal(t, untraced, call(second))
	call(stubborn{ctx, &asked})
	require.Len(t, ids, 3)
	require.Equal(t, ids[1], ids[2])
	require.Equal(t, ids[1], ids[0])
}

// TestInFlight: calls in flight have no goroutine but their own while they are observed. Their guests wait in a function of the host.
func TestInFlight(t *testing.T) {
	const calls = 2000
	p, probes := load(t)
	defer p.Observe(func(*stapsdt.Event) {})()
	release := make(chan struct{})
	var waiting atomic.Int32
	var done sync.WaitGroup
	module := instantiateWith(t, probes.Listen(t.Context()), func() {
		waiting.Add(1)
		<-release
	})
	for range calls {
		done.Go(func() {
			_, err := module.ExportedFunction("nap").Call(probes.Call(t.Context()), 1)
			require.NoError(t, err)
		})
	}
	require.Eventually(t, func() bool { return waiting.Load() == calls }, testenv.Patience, time.Millisecond)
	require.Zero(t, testenv.Goroutines())
	close(release)
	done.Wait()
}
