package proberec

import (
	"os"
	"runtime"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// entries returns the number of files in a directory of /proc, or 0 where there is none.
func entries(path string) int {
	list, _ := os.ReadDir(path)
	return len(list)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestInFlight: a recorder takes its size, however many operations are in flight, and no thread,
// goroutine or descriptor. It keeps its memory when it is stopped, and none when it is dropped.
func TestInFlight(t *testing.T) {
	testenv.NotRaced(t, "the detector has memory of its own")
	const operations, size = 20_000, 1 << 20
	p := stapsdt.NewProvider("p")
	defer p.Close()
	start := stapsdt.NewProbe2[uint64, string](p, "start", "id", "text")
	end := stapsdt.NewProbe1[uint64](p, "end", "id")
	goroutines, threads, descriptors := runtime.NumGoroutine(), entries("/proc/self/task"), entries("/proc/self/fd")
	bytes := heap()
	r := New(size, p)
	r.Start()
	fire := func(f func(id uint64)) {
		done := make(chan struct{})
		for from := range uint64(4) { // goroutines, which use several shards
			go func() {
				for id := from; id < operations; id += 4 {
					f(id)
				}
				done <- struct{}{}
			}()
		}
		for range 4 {
			<-done
		}
	}
	fire(func(id uint64) { start.Fire(id, "SELECT") })
	require.LessOrEqual(t, heap()-bytes, int64(size+128<<10))
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+4) // those of fire may not quite have ended
	// The runtime starts threads of its own while goroutines run, and an emulator more of them.
	require.LessOrEqual(t, entries("/proc/self/task"), threads+16)
	require.LessOrEqual(t, entries("/proc/self/fd"), descriptors)
	fire(func(id uint64) { end.Fire(id) })
	r.Stop()
	require.LessOrEqual(t, heap()-bytes, int64(size+128<<10))
	runtime.KeepAlive(r)
	r = nil
	require.LessOrEqual(t, heap()-bytes, int64(128<<10))
}

// TestWhileWriting: no lock is held while the writer, which is the program's, runs.
func TestWhileWriting(t *testing.T) {
	p := stapsdt.NewProvider("p")
	defer p.Close()
	probe := stapsdt.NewProbe1[int](p, "event", "n")
	r := New(0, p)
	r.Start()
	defer r.Stop()
	probe.Fire(1)
	n, err := r.WriteTo(writerFunc(func(b []byte) (int, error) {
		for i := range 100_000 { // more than the recorder has room for
			probe.Fire(i)
		}
		r.Stop()
		r.Start()
		return len(b), nil
	}))
	require.NoError(t, err)
	require.Positive(t, n)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
