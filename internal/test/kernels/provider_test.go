//go:build linux && (amd64 || arm64)

package kernels

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

// forEachPlacement runs a test with a provider in a file, and with one in memory.
func forEachPlacement(t *testing.T, test func(t *testing.T, p *stapsdt.Provider, memfd bool)) {
	t.Run("file", func(t *testing.T) { test(t, newProvider(t, "placed"), false) })
	t.Run("memfd", func(t *testing.T) { test(t, newProvider(t, "placed", stapsdt.WithMemfd()), true) })
}

// newProvider returns a provider that is closed when the test ends.
func newProvider(t *testing.T, name string, opts ...stapsdt.Option) *stapsdt.Provider {
	p := stapsdt.NewProvider(name, append([]stapsdt.Option{stapsdt.WithDir(t.TempDir())}, opts...)...)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// addProbe adds a probe with any number of arguments.
func addProbe(t *testing.T, p *stapsdt.Provider, name string, args ...stapsdt.ArgType) *stapsdt.Probe {
	probe := tracetest.Must(p.AddProbe(name, args...))(t)
	return probe
}

// loadEvent loads a provider with one probe, which has one argument. Its callers attach to it.
func loadEvent(t *testing.T, p *stapsdt.Provider) *stapsdt.Probe {
	tracetest.NeedUprobes(t)
	event := addProbe(t, p, "event", stapsdt.Uint64)
	require.NoError(t, p.Load())
	return event
}

// noteOf returns the note of a loaded probe. Its offset is that of the site.
func noteOf(t *testing.T, probe *stapsdt.Probe) sdt.Site {
	p := probe.Provider()
	notes := tracetest.Must(sdt.ReadFile(p.Path()))(t)
	require.Len(t, notes, len(p.Probes()))
	note := notes[slices.Index(p.Probes(), probe)]
	require.Equal(t, probe.String(), note.Provider+":"+note.Name)
	require.Len(t, note.Args, len(probe.Args()))
	return note
}

// count attaches a counter to a probe, in every process.
func count(t *testing.T, probe *stapsdt.Probe) *tracetest.Counter {
	c := tracetest.Must(tracetest.CountUprobe(probe.Provider().Path(), noteOf(t, probe).Offset))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// requireCount requires that a counter has counted so many fires since it was
// attached.
func requireCount(t *testing.T, c *tracetest.Counter, want int) {
	got := tracetest.Must(c.Count())(t)
	require.EqualValues(t, want, got)
}

// Enabled is true while a tracer is attached, and at no other time. A provider that is unloaded and loaded again under a tracer
// stays traced, because it is in the same file again. In memory it is another image, which the tracer does not know.
func TestReload(t *testing.T) { forEachPlacement(t, testReload) }

func testReload(t *testing.T, p *stapsdt.Provider, memfd bool) {
	event := loadEvent(t, p)
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
		require.Equal(t, !memfd, event.Enabled())
		require.NoError(t, event.Fire(1))
		if !memfd {
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
	testedBy(t, "soak")
	const cycles, firers = 100, 4
	p := newProvider(t, "kernel")
	event := loadEvent(t, p)
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
	before := tracetest.Must(c.Count())(t)
	require.LessOrEqual(t, before, fired.Load())
	require.NotZero(t, before)
	require.NoError(t, event.Fire(1))
	requireCount(t, c, int(before)+1)
	t.Logf("%d events of %d calls in %d cycles", before, fired.Load(), cycles)
}
