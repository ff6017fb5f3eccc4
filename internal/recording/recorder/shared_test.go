package recorder

import (
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// events returns the numbers of the events in the slots that threads own, and in those of shared shards that have any.
func (w *Writer) events() (owned uint64, shared []uint64) {
	for i := range w.table.slots {
		owned += w.table.slots[i].events
	}
	for i := range w.shared {
		if n := w.shared[i].events; n > 0 {
			shared = append(shared, n)
		}
	}
	return owned, shared
}

// TestBurst: goroutines that fire as fast as they can, many more than there are processors, lose nothing by any clock.
func TestBurst(t *testing.T) {
	for _, o := range allOptions {
		w := newWriter(t, 64<<20, o)
		if !w.inAssembly {
			t.Skip("all shards have locks here, and can be taken by goroutines that do not run")
		}
		number, _ := w.AddProbe(integers(2))
		p := probeOf(w, number, 8, 8)
		const goroutines, each = 64, 5000
		var group sync.WaitGroup
		for g := range uint64(goroutines) {
			group.Go(func() {
				for i := range uint64(each) {
					args := [...]*uint64{&g, &i}
					p.Append(unsafe.Pointer(&args))
				}
			})
		}
		group.Wait()
		r := eventtest.Read(t, w)
		next := map[uint64]uint64{}
		for e := range eventtest.Events(t, r) {
			require.Equal(t, next[e.Word(0)], e.Word(1), "goroutine %d", e.Word(0))
			next[e.Word(0)]++
		}
		require.Zero(t, r.Lost())
		require.Len(t, next, goroutines)
	}
}

// TestHeld: fires that do not go on, such as those of goroutines that were preempted in them, keep no other fire from a shard, unless there are as
// many as shards with locks.
func TestHeld(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	held := func(options ...Options) {
		for _, o := range options {
			w := newWriter(t, 64<<20, o)
			number, _ := w.AddProbe(integers(1))
			require.Len(t, w.shared, commons)
			for i := range w.shared[1:] {
				require.True(t, w.tryLock(&w.shared[1+i]))
			}
			for n := range uint64(100) {
				fireAt(w, number, n)
			}
			require.Zero(t, w.Dropped())
		}
	}
	held(allOptions...)
	synctest.Test(t, func(*testing.T) { held(Options{}) })
}

// TestDropped: events that find no shard are missing where they were fired.
func TestDropped(t *testing.T) {
	runtime.LockOSThread() // so that it has one shard
	defer runtime.UnlockOSThread()
	w := newWriter(t, 1<<20, Options{})
	number, _ := w.AddProbe(integers(1))
	fire := func(n int) {
		for range n {
			fireAt(w, number, uint64(0))
		}
	}
	const chunk = (recording.ChunkBytes - recording.ChunkHeadBytes) / (recording.RecordHeadBytes + 8)
	fire(chunk / 2)
	w.DropSome(7)
	fire(chunk)
	w.DropSome(5) // no chunk was begun since
	r := eventtest.Read(t, w)
	at := -1
	n := 0
	for e := range eventtest.Events(t, r) {
		if e.Missing > 0 {
			require.EqualValues(t, 7, e.Missing)
			at = n
		}
		n++
	}
	require.Equal(t, chunk, at, "the first event of the second chunk")
	require.Equal(t, 3*chunk/2, n)
	missing := r.Missing()
	missing.Until = 0
	require.Equal(t, recording.Missing{Between: 7, Unplaced: 5}, missing)
}

// TestBubble: in a bubble of testing/synctest, where all times are equal, a goroutine appends to one shared shard on any thread, which keeps
// its order. The writer may be older than the bubble.
func TestBubble(t *testing.T) {
	const events = 100
	fire := func(w *Writer, number, first uint64) {
		for i := range uint64(events) {
			fireAt(w, uint32(number), first+i)
			runtime.Gosched()
		}
	}
	outside := newWriter(t, 64<<20, Options{})
	number, _ := outside.AddProbe(integers(1))
	fire(outside, uint64(number), 0)
	var inside *Writer
	synctest.Test(t, func(t *testing.T) {
		inside = newWriter(t, 64<<20, Options{})
		require.False(t, inside.hasSlots)
		number, _ := inside.AddProbe(integers(1))
		for _, w := range []*Writer{inside, outside} {
			fire(w, uint64(number), events)
		}
	})
	owned, shared := inside.events()
	require.Zero(t, owned)
	require.Equal(t, []uint64{events}, shared)
	if outside.hasSlots {
		owned, shared = outside.events()
		require.EqualValues(t, events, owned)
		require.Equal(t, []uint64{events}, shared)
	}
	for _, w := range []*Writer{inside, outside} {
		r := eventtest.Read(t, w)
		next := uint64(events)
		for e := range eventtest.Events(t, r) {
			if e.Word(0) < events {
				continue // outside of the bubble, whose time is another
			}
			require.Equal(t, next, e.Word(0))
			require.EqualValues(t, time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano(), e.Monotonic)
			next++
		}
		require.EqualValues(t, 2*events, next)
		require.Zero(t, r.Lost())
	}
}

// TestOneShard: a goroutine without a slot finds the same shared shard in Go and in assembly, so that its first fire, which takes a chunk in Go, is
// its only one there.
func TestOneShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t, 64<<20, Options{})
		if !w.inAssembly {
			t.Skip("records are not appended in assembly here")
		}
		number, _ := w.AddProbe(integers(1))
		p := &probe{shape: shapeOf(w, []recording.Arg{{Type: 8}}), writer: w}
		p.setNumber(number)
		value := uint64(7)
		args := [...]*uint64{&value}
		p.Append(unsafe.Pointer(&args))
		const more = 10
		for range more {
			f := fire{now: math.MaxInt64}
			require.True(t, write(&p.shape, unsafe.Pointer(&args), &f))
		}
		_, shared := w.events()
		require.Equal(t, []uint64{1 + more}, shared)
	})
}
