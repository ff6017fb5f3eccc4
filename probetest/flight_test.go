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
	testenv.NotRaced(t, "the detector has memory of its own")
	const events = 20_000
	p := stapsdt.NewProvider("memory")
	t.Cleanup(func() { p.Close() })
	probe := stapsdt.NewProbe1[uint64](p, "event", "id")
	rec := Record(t, p)
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	bytes, goroutines := heap(), runtime.NumGoroutine()
	for id := range uint64(events) {
		probe.Fire(id)
	}
	require.Less(t, heap()-bytes, int64(events*300))
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
	require.Len(t, rec.Events(), events)
	rec.Reset()
	require.LessOrEqual(t, heap()-bytes, int64(64<<10))
	require.Empty(t, rec.Events())
}
