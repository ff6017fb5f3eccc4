//go:build linux && (amd64 || arm64)

package kernels

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Enabled is true while a tracer is attached, and at no other time. A provider that is unloaded and loaded again under a tracer
// stays traced, because it is in the same file again. In memory it is another image, which the tracer does not know.
func TestReload(t *testing.T) { forEachPlacement(t, testReload) }

func testReload(t *testing.T, where placement) {
	p, event := oneEvent(t, where)
	for range 3 {
		path := p.Path()
		require.False(t, event.Enabled())
		c := count(t, event)
		for i := range 5 {
			require.True(t, event.Enabled())
			require.NoError(t, event.Fire(i))
		}
		require.NoError(t, p.Unload())
		require.False(t, event.Enabled())
		require.NoError(t, event.Fire(1))
		require.NoError(t, p.Load())
		require.Equal(t, where == inFile, event.Enabled())
		require.NoError(t, event.Fire(1))
		if where == inFile {
			require.Equal(t, path, p.Path())
			requireCount(t, c, 6)
		} else {
			requireCount(t, c, 5)
		}
		require.NoError(t, c.Close())
		require.False(t, event.Enabled())
		require.NoError(t, event.Fire(1))
	}
	require.NoError(t, p.Close())
	require.NoError(t, event.Fire(1))
}

// TestReloadRunning fires from several goroutines all the time, while the provider
// is unloaded and loaded. Nothing faults, and the probe works afterwards.
func TestReloadRunning(t *testing.T) {
	testedBy(t, "process")
	const cycles, firers = 100, 4
	p, event := oneEvent(t, inFile)
	c := count(t, event)
	var stop atomic.Bool
	var wg sync.WaitGroup
	var fired atomic.Uint64
	for range firers {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				event.Fire(i)
				fired.Add(1)
				if i%64 == 0 {
					runtime.Gosched() // a guest has a single processor
				}
			}
		})
	}
	for range cycles {
		require.NoError(t, p.Unload())
		runtime.Gosched()
		require.NoError(t, p.Load())
		runtime.Gosched()
	}
	stop.Store(true)
	wg.Wait()
	before, err := c.Count()
	require.NoError(t, err)
	require.LessOrEqual(t, before, fired.Load())
	require.NotZero(t, before)
	require.NoError(t, event.Fire(1))
	requireCount(t, c, int(before)+1)
	t.Logf("%d events of %d calls in %d cycles", before, fired.Load(), cycles)
}
