package probetest

import (
	"runtime"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestMemory: a recorder keeps each event until Reset, in at most 300 bytes and those of its
// strings, and no goroutine.
func TestMemory(t *testing.T) {
	testenv.Measures(t, "the memory of recorded events")
	testenv.NotRaced(t, "the detector has memory of its own")
	const events = 20_000
	p := stapsdt.NewProvider("memory")
	t.Cleanup(func() { p.Close() })
	probe := stapsdt.NewProbe1[uint64](p, "event", "id")
	rec := Record(t, p)
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	bytes := heap()
	for id := range uint64(events) {
		probe.Fire(id)
	}
	testenv.Figure(t, "an event", (heap()-bytes)/events, 300, "bytes")
	require.Zero(t, testenv.Goroutines())
	require.Len(t, rec.Events(), events)
	rec.Reset()
	testenv.Figure(t, "what Reset leaves", heap()-bytes, 64<<10, "bytes")
	require.Empty(t, rec.Events())
}
