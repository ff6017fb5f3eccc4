//go:build linux && (amd64 || arm64)

package kernels

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Enabled is true while a tracer is attached, and at no other time.
func TestEnabled(t *testing.T) { forEachPlacement(t, testEnabled) }

func testEnabled(t *testing.T, where placement) {
	_, event := oneEvent(t, where)
	for range 3 {
		require.False(t, event.Enabled())
		c := count(t, event)
		for i := range 5 {
			require.True(t, event.Enabled())
			require.NoError(t, event.Fire(i))
		}
		requireCount(t, c, 5)
		require.True(t, event.Enabled())
		require.NoError(t, c.Close())
		require.False(t, event.Enabled())
		require.NoError(t, event.Fire(1))
	}
}

// A provider that is unloaded and loaded again under a tracer stays traced,
// because it is in the same file again.
func TestReloadFile(t *testing.T) {
	testedBy(t, "process")
	p, event := oneEvent(t, inFile)
	path := p.Path()
	c := count(t, event)
	for range 3 {
		require.NoError(t, event.Fire(1))
		require.NoError(t, p.Unload())
		require.False(t, event.Enabled())
		require.NoError(t, event.Fire(1))
		require.NoError(t, p.Load())
		require.Equal(t, path, p.Path())
		require.True(t, event.Enabled())
		require.NoError(t, event.Fire(1))
	}
	requireCount(t, c, 6)
	require.NoError(t, c.Close())
	require.False(t, event.Enabled())
	require.NoError(t, p.Close())
	require.NoError(t, event.Fire(1))
}

// In memory it is another image, which the tracer does not know.
func TestReloadMemfd(t *testing.T) {
	testedBy(t, "process")
	p, event := oneEvent(t, inMemory)
	c := count(t, event)
	require.NoError(t, event.Fire(1))
	require.NoError(t, p.Unload())
	require.False(t, event.Enabled())
	require.NoError(t, p.Load())
	require.False(t, event.Enabled())
	requireCount(t, c, 1)
	again := count(t, event)
	require.True(t, event.Enabled())
	require.NoError(t, event.Fire(1))
	requireCount(t, again, 1)
}

const cycles, firers = 100, 4

// TestReloadCount fires from several goroutines between each load and the unload
// that follows. The tracer counts every fire.
func TestReloadCount(t *testing.T) {
	testedBy(t, "process")
	p, event := oneEvent(t, inFile)
	c := count(t, event)
	const fires = 25
	for range cycles {
		var wg sync.WaitGroup
		for range firers {
			wg.Go(func() {
				for i := range fires {
					event.Fire(i)
				}
			})
		}
		wg.Wait()
		require.NoError(t, p.Unload())
		event.Fire(1) // not counted
		require.NoError(t, p.Load())
	}
	requireCount(t, c, cycles*firers*fires)
	t.Logf("%d events in %d cycles", cycles*firers*fires, cycles)
}

// TestReloadRunning fires from several goroutines all the time, while the provider
// is unloaded and loaded. Nothing faults, and the probe works afterwards.
func TestReloadRunning(t *testing.T) {
	testedBy(t, "process")
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
