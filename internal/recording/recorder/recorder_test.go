package recorder

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/sink"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/internal/words"

	"github.com/stretchr/testify/require"
)

func integers(n int) *recording.Probe {
	p := &recording.Probe{Provider: "p", Name: "integers"}
	for i := range n {
		p.Args = append(p.Args, recording.Arg{Name: fmt.Sprint("arg", i), Type: 8, Kind: kind.Uint64})
	}
	return p
}

// allOptions are the ways in which a program's own fires are appended.
var allOptions = []Options{{}, {CannotFail: true}, {Counter: true}, {Counter: true, CannotFail: true}}

func newWriter(t testing.TB, size int, o Options) *Writer {
	return New(make([]byte, Size(Chunks(int64(size)))), Chunks(int64(size)), o)
}

// TestStorm: threads that come and go record numbers, and block between them; what the reader sees is each
// goroutine's numbers without a gap, and seen and lost events are as many as were recorded. So it is with a version of Go
// that is not tested, without the assembly.
func TestStorm(t *testing.T) {
	defer func(old bool) { usesG = old }(usesG)
	for i, o := range append(allOptions, allOptions...) {
		usesG = usesG && i < len(allOptions)
		w := newWriter(t, 64<<20, o)
		require.False(t, w.inAssembly && !usesG)
		number, ok := w.AddProbe(integers(2))
		require.True(t, ok)
		longs := probeOf(w, number, 8, -8)
		const goroutines = 64
		events := 5000
		if testing.Short() {
			events = 500
		}
		var group sync.WaitGroup
		for g := range uint64(goroutines) {
			group.Go(func() {
				for i := range uint64(events) {
					if i%2 == 0 {
						fireAt(w, number, g, i)
					} else {
						args := [...]*uint64{&g, &i}
						longs.Append(unsafe.Pointer(&args))
					}
					if i%100 == g {
						time.Sleep(time.Microsecond)
					}
				}
			})
		}
		group.Wait()
		w.Close()
		r := eventtest.Read(t, w)
		next := map[uint64]uint64{}
		seen := 0
		var last time.Duration
		for e := range eventtest.Events(t, r) {
			if !o.Counter { // else times are computed from readings, of which each is wrong by as much as it was interrupted
				require.GreaterOrEqual(t, e.Monotonic, last)
				last = e.Monotonic
			}
			require.LessOrEqual(t, next[e.Word(0)], e.Word(1))
			next[e.Word(0)] = e.Word(1) + 1
			seen++
		}
		require.Equal(t, goroutines*events, seen+int(r.Lost()))
		if w.hasSlots { // else all shards with locks can be taken by goroutines that do not run
			require.Zero(t, r.Lost())
		}
	}
}

// TestThreadsEnd: the slots of threads that have ended are taken back.
func TestThreadsEnd(t *testing.T) {
	w := newWriter(t, 64<<20, Options{Counter: true})
	if !w.hasSlots {
		t.Skip("threads own no slots here")
	}
	number, _ := w.AddProbe(integers(1))
	onThread := func(f func()) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // for good: the thread ends with the goroutine
			f()
		}()
		<-done
	}
	var wait, all sync.WaitGroup
	wait.Add(1)
	for range 4 * slots {
		all.Add(1)
		go onThread(func() {
			fireAt(w, number, uint64(1))
			all.Done()
			wait.Wait()
		})
	}
	all.Wait()
	wait.Done()
	require.Eventually(t, func() bool {
		owns := false
		onThread(func() {
			fireAt(w, number, uint64(1))
			i, ok := w.ownSlot()
			owns = ok && w.table.slots[i].key == uint64(thread())
		})
		return owns
	}, testenv.Patience, 10*time.Millisecond)
}

// TestShared: a thread that can own no slot records without a lock that it could be preempted under, and drops the event where another fire is in
// each shared slot.
func TestShared(t *testing.T) {
	w := newWriter(t, 1, Options{Counter: true}) // with one slot of each kind
	if !w.hasSlots {
		t.Skip("threads own no slots here")
	}
	require.Zero(t, w.table.mask)
	require.Len(t, w.shared, 1)
	w.tookBack.Store(math.MaxInt64 / 2) // no slot is taken back meanwhile
	number, _ := w.AddProbe(integers(1))
	append := func() { fireAt(w, number, uint64(1)) }
	runtime.LockOSThread()
	append()
	require.EqualValues(t, thread(), w.table.slots[0].key)
	recorded, wait := make(chan bool), make(chan bool)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		append() // takes a chunk
		w.shared[0].interval = math.MaxUint64
		w.shared[0].mu.Lock()
		append()
		w.shared[0].mu.Unlock()
		recorded <- true
		<-wait
		append()
		recorded <- true
	}()
	<-recorded
	require.EqualValues(t, []uint64{1, 2, 0}, []uint64{w.table.slots[0].events, w.shared[0].events, w.Dropped()})
	require.Zero(t, w.shared[0].key)
	w.shared[0].key = sharing
	wait <- true
	<-recorded
	runtime.UnlockOSThread()
	require.EqualValues(t, []uint64{1, 2, 1}, []uint64{w.table.slots[0].events, w.shared[0].events, w.Dropped()})
}

// TestManyProcessors: a recording has as many shards as its format allows, on any number of processors.
func TestManyProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(128))
	for _, o := range allOptions {
		w := newWriter(t, 64<<20, o)
		number, _ := w.AddProbe(integers(1))
		for n := range uint64(100) {
			fireAt(w, number, n)
		}
		r := eventtest.Read(t, w)
		require.LessOrEqual(t, r.Head().Shards, uint32(recording.MaxShards))
		for n := range uint64(100) {
			e, err := r.Next()
			require.NoError(t, err)
			require.Equal(t, n, e.Word(0))
		}
	}
}

// TestTexts: texts of all lengths below some words are whole, and longer ones than MaxText are cut, for
// each text and for the record's size.
func TestTexts(t *testing.T) {
	lengths := []int{recording.MaxText - 1, recording.MaxText, recording.MaxText + 1, 3 * recording.MaxText}
	for n := range 40 {
		lengths = append(lengths, n)
	}
	p := &recording.Probe{Provider: "p", Name: "texts", Args: []recording.Arg{
		{Type: kind.TypeString, Kind: kind.String}, {Type: 8, Kind: kind.Uint64}, {Type: kind.TypeString, Kind: kind.String}}}
	for _, o := range allOptions {
		w := newWriter(t, 1<<20, o)
		number, ok := w.AddProbe(p)
		require.True(t, ok)
		texts := func(n int) (a, b string) { return strings.Repeat("a", n), strings.Repeat("b\x00", n) }
		for _, n := range lengths {
			a, b := texts(n)
			fireAt(w, number, a, uint64(n), b)
		}
		r := eventtest.Read(t, w)
		for _, n := range lengths {
			a, b := texts(n)
			e, err := r.Next()
			require.NoError(t, err)
			require.Equal(t, a[:min(len(a), recording.MaxText)], string(e.Text(0)))
			require.EqualValues(t, n, e.Word(1))
			require.Equal(t, b[:min(len(b), recording.MaxText)], string(e.Text(2)))
		}
		require.Zero(t, r.Lost())
	}
}

// probeOf returns what appends the fires of a probe with arguments of these types.
func probeOf(w *Writer, number uint32, types ...int8) sink.Probe {
	var args []recording.Arg
	for _, typ := range types {
		args = append(args, recording.Arg{Type: typ})
	}
	p := &probe{shape: shapeOf(w, args), writer: w}
	p.setNumber(number)
	return p.quickest()
}

// fireAt appends an event with these values, each a uint64 or a string.
func fireAt(w *Writer, number uint32, values ...any) {
	var types []int8
	var args []unsafe.Pointer
	for _, v := range values {
		switch v := v.(type) {
		case uint64:
			types, args = append(types, 8), append(args, unsafe.Pointer(&v))
		case string:
			types, args = append(types, kind.TypeString), append(args, unsafe.Pointer(&v))
		}
	}
	probeOf(w, number, types...).Append(unsafe.Pointer(unsafe.SliceData(args)))
}

// TestNumbers: numbers of every type become words as words.Load says.
func TestNumbers(t *testing.T) {
	for _, o := range allOptions {
		w := newWriter(t, 1<<20, o)
		types := []int8{8, -8, 4, -4, 2, -2, 1, -1, 36, 40}
		number, ok := w.AddProbe(integers(len(types)))
		require.True(t, ok)
		values := make([][2]uint64, len(types)) // what follows a value is not read
		args := make([]unsafe.Pointer, len(types))
		var want []uint64
		for i := range types {
			values[i] = [2]uint64{0x8182838485868788, ^uint64(0)}
			args[i] = unsafe.Pointer(&values[i])
			want = append(want, words.Load(types[i], args[i]))
		}
		require.Equal(t, []uint64{0x8182838485868788, 0x8182838485868788}, want[:2])
		if !bigEndian {
			require.Equal(t, []uint64{0x85868788, 0xffffffff85868788, 0x8788, 0xffffffffffff8788, 0x88, 0xffffffffffffff88, 0x85868788, 0x8182838485868788}, want[2:])
		}
		const times = 3 // the first one gets the slot
		for range times {
			probeOf(w, number, types...).Append(unsafe.Pointer(&args[0]))
		}
		r := eventtest.Read(t, w)
		for range times {
			e, err := r.Next()
			require.NoError(t, err)
			for i := range want {
				require.Equal(t, want[i], e.Word(i), types[i])
			}
		}
	}
}

var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// TestForeign: events of other processes have their times, processes and threads. The oldest are lost.
func TestForeign(t *testing.T) {
	w := newWriter(t, 1<<20, Options{Foreign: true, Head: recording.Head{PID: 7}})
	p := integers(1)
	p.Args = append(p.Args, recording.Arg{Name: "text", Kind: kind.String, Type: kind.TypeString})
	number, ok := w.AddProbe(p)
	require.True(t, ok)
	const events = 100_000
	for i := range uint64(events) {
		w.AppendForeign(number, 1000+i, uint32(1+i%3), uint32(100+i), []uint64{i, i % 20}, []string{"abcdefghijklmnopqrstuvwxyz"[:i%20]})
	}
	w.DropSome(5)
	w.Close()
	r := eventtest.Read(t, w)
	seen := uint64(0)
	for e := range eventtest.Events(t, r) {
		i := e.Word(0)
		require.Equal(t, []uint64{1000 + i, 1 + i%3, 100 + i, 0}, []uint64{uint64(e.Monotonic), uint64(e.PID), uint64(e.TID), e.Goroutine})
		require.Len(t, e.Text(1), int(i%20))
		seen++
	}
	require.EqualValues(t, events+5, seen+r.Lost())
	require.Greater(t, seen, uint64(10_000))
	require.Greater(t, r.Lost(), uint64(5))
}

func BenchmarkRecord(b *testing.B) {
	start := time.Now()
	b.Run("time.Since", func(b *testing.B) {
		for range b.N {
			time.Since(start)
		}
	})
	for _, o := range allOptions {
		b.Run(fmt.Sprintf("counter=%v,cannotFail=%v", o.Counter, o.CannotFail), func(b *testing.B) { benchmarkRecord(b, o) })
	}
}

func benchmarkRecord(b *testing.B, o Options) {
	w := newWriter(b, 16<<20, o)
	text := &recording.Probe{Args: []recording.Arg{{Type: 8, Kind: kind.Uint64}, {Type: kind.TypeString, Kind: kind.String}}}
	two, _ := w.AddProbe(integers(2))
	mixed, _ := w.AddProbe(text)
	longs, texts := probeOf(w, two, 8, -8), probeOf(w, mixed, 8, kind.TypeString)
	b.Run("two integers", func(b *testing.B) {
		b.ReportAllocs()
		for i := range uint64(b.N) {
			other := uint64(16)
			args := [...]*uint64{&i, &other}
			longs.Append(unsafe.Pointer(&args))
		}
	})
	b.Run("an integer and a text", func(b *testing.B) {
		b.ReportAllocs()
		for i := range uint64(b.N) {
			text := "0123456789abcdef"
			args := [...]unsafe.Pointer{unsafe.Pointer(&i), unsafe.Pointer(&text)}
			texts.Append(unsafe.Pointer(&args))
		}
	})
}
