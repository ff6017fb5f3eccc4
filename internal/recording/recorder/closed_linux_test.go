package recorder

import (
	"bytes"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestClosed: when Close has returned, memory that is mapped where the recording was stays as it is, whatever goroutines do that had begun
// before: records, texts, events for which there is no shard or number, and new probes.
func TestClosed(t *testing.T) {
	const rounds = 50
	for _, o := range allOptions {
		for range rounds {
			chunks := Chunks(1)
			memory, err := unix.Mmap(-1, 0, int(Size(chunks)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
			require.NoError(t, err)
			w := New(memory, chunks, o)
			number, ok := w.AddProbe(integers(2))
			require.True(t, ok)
			longs := probeOf(w, number, 8, -8)
			var fired atomic.Uint64
			var stop atomic.Bool
			var group sync.WaitGroup
			for g := range uint64(8) {
				group.Go(func() {
					for i := uint64(0); !stop.Load(); i++ {
						switch g % 4 {
						case 0:
							fireAt(w, number, g, i, "a text of some length")
						case 1:
							args := [...]*uint64{&g, &i}
							longs.Append(unsafe.Pointer(&args))
						case 2:
							w.Drop() // as the fire of a probe for which the table has no room
						case 3:
							p := integers(int(i % recording.MaxArgs))
							p.PID = uint32(i)
							w.AddProbe(p)
							w.DropSome(2)
						}
						if fired.Add(1)%64 == 0 {
							runtime.Gosched()
						}
					}
				})
			}
			await := func(n uint64) {
				for from := fired.Load(); fired.Load() < from+n; {
					runtime.Gosched()
				}
			}
			await(100)
			w.Close()
			// SAFETY: it is the address of the mapping, and no longer used as a recording.
			at := unsafe.Pointer(unsafe.SliceData(memory))
			_, err = unix.MmapPtr(-1, 0, at, uintptr(len(memory)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED)
			require.NoError(t, err)
			await(100)
			stop.Store(true)
			group.Wait()
			require.Equal(t, -1, bytes.IndexFunc(memory, func(r rune) bool { return r != 0 }))
			require.NoError(t, unix.Munmap(memory))
		}
	}
}

// TestTextFails: a text on a page that is not there, as of a file that was truncated, panics in the program, and the shared slot that the
// fire had taken can be used again.
func TestTextFails(t *testing.T) {
	for _, o := range allOptions[1:] {
		testTextFails(t, o)
	}
}

func testTextFails(t *testing.T, o Options) {
	w := newWriter(t, 1, o) // with one slot of each kind
	if !w.hasSlots {
		t.Skip("threads own no slots here")
	}
	w.tookBack.Store(math.MaxInt64 / 2) // no slot is taken back meanwhile
	number, _ := w.AddProbe(&recording.Probe{Provider: "p", Name: "text", Args: []recording.Arg{{Name: "text", Type: kind.TypeString, Kind: kind.String}}})
	text := testenv.MissingText(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fireAt(w, number, "own")
	done := make(chan bool)
	go func() {
		defer close(done)
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		runtime.LockOSThread() // on another thread than that of the slot
		defer runtime.UnlockOSThread()
		fireAt(w, number, "shared")
		require.Panics(t, func() { fireAt(w, number, text) })
		require.True(t, debug.SetPanicOnFault(true), "the program's setting")
		for range 100 {
			fireAt(w, number, "shared")
		}
	}()
	<-done
	require.Zero(t, w.Dropped())
	require.EqualValues(t, 101, w.shared[0].events)
}
