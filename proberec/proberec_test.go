package proberec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// line is an event as it was written.
type line struct {
	Time     time.Time
	Provider string
	Probe    string
	PID      int
	Args     map[string]any
}

// written returns what a recorder has.
func written(t testing.TB, r *Recorder) (lines []line) {
	t.Helper()
	var out bytes.Buffer
	n, err := r.WriteJSON(&out)
	require.NoError(t, err)
	require.EqualValues(t, out.Len(), n)
	for d := json.NewDecoder(&out); d.More(); {
		var l line
		require.NoError(t, d.Decode(&l))
		lines = append(lines, l)
	}
	return lines
}

func TestRecorder(t *testing.T) {
	p, q := stapsdt.NewProvider("p"), stapsdt.NewProvider("q")
	all := stapsdt.NewProbe6[string, int32, bool, time.Duration, float64, []byte](p, "all", "a", "b", "c", "d", "e", "f")
	pointer := stapsdt.NewProbe3[unsafe.Pointer, uint64, float32](q, "pointer")
	r := New(1, p, q)
	require.Empty(t, written(t, r), "not started yet")
	r.Stop()
	r.Start()
	r.Start()
	require.True(t, all.Enabled())
	before := time.Now()
	all.Fire("text", -1, true, time.Second, 0.5, []byte("bytes"))
	pointer.Fire(nil, math.MaxUint64, -0.5)
	all.Fire("", 0, false, 0, math.NaN(), nil)
	r.Stop()
	r.Stop()
	require.False(t, all.Enabled())
	lines := written(t, r)
	require.Len(t, lines, 3)
	require.WithinRange(t, lines[0].Time, before.Add(-time.Second), time.Now().Add(time.Second))
	require.Equal(t, map[string]any{"a": "text", "b": -1., "c": true, "d": 1e9, "e": 0.5, "f": "bytes"}, lines[0].Args)
	require.Equal(t, "q", lines[1].Provider)
	require.Equal(t, "pointer", lines[1].Probe)
	require.Equal(t, map[string]any{"arg0": "0x0", "arg1": float64(math.MaxUint64), "arg2": -0.5}, lines[1].Args)
	require.Equal(t, map[string]any{"a": "", "b": 0., "c": false, "d": 0., "e": "NaN", "f": ""}, lines[2].Args)
	require.False(t, lines[2].Time.Before(lines[0].Time))
	r.Start()
	pointer.Fire(nil, 1, 1)
	require.Len(t, written(t, r), 4, "Start continues")
	r.Stop()

	New(1, nil).Start()
	new(Recorder).Start()
	require.Empty(t, written(t, new(Recorder)))
}

// TestWriteTo: a copy of the recording is one, whole and with all events, while others are fired.
func TestWriteTo(t *testing.T) {
	p := stapsdt.NewProvider("p")
	probe := stapsdt.NewProbe2[int, string](p, "event", "n", "text")
	r := New(1, p)
	n, err := r.WriteTo(writerFunc(func([]byte) (int, error) { return 0, errors.New("there is nothing to write") }))
	require.NoError(t, err)
	require.Zero(t, n, "not started yet")
	r.Start()
	defer r.Stop()
	for i := range 500 {
		probe.Fire(i, "text")
	}
	var out bytes.Buffer
	n, err = r.WriteTo(writerFunc(func(b []byte) (int, error) {
		require.LessOrEqual(t, len(b), recording.ChunkBytes)
		for range 1000 { // more than the recorder has room for, in all
			probe.Fire(-1, "later")
		}
		return out.Write(b)
	}))
	require.NoError(t, err)
	require.EqualValues(t, out.Len(), n)
	reader := eventtest.Read(t, bytes.NewReader(out.Bytes()))
	require.EqualValues(t, os.Getpid(), reader.Head().PID)
	if runtime.GOOS == "linux" {
		require.NotEmpty(t, reader.Head().Executable)
		require.NotZero(t, reader.Head().Boot)
	}
	for i := range 500 {
		e, err := reader.Next()
		require.NoError(t, err)
		require.EqualValues(t, i, e.Word(0))
		require.Equal(t, "text", string(e.Text(1)))
	}
	_, err = reader.Next()
	require.ErrorIs(t, err, io.EOF, "later events are in no copy")
	require.Zero(t, reader.Lost())
	_, err = r.WriteTo(&failingWriter{100_000})
	require.EqualError(t, err, "no room")
}

// TestNilRecorder: it records nothing, as the zero Recorder.
func TestNilRecorder(t *testing.T) {
	for _, r := range []*Recorder{nil, {}} {
		r.Start()
		r.Stop()
		require.Empty(t, written(t, r))
		n, err := r.WriteTo(io.Discard)
		require.NoError(t, err)
		require.Zero(t, n)
		require.Empty(t, r.Path())
		require.Empty(t, r.Previous())
		require.NoError(t, r.Err())
		require.NoError(t, r.Close())
	}
}

// TestStartWhileWriting: WriteJSON may see the first Start, or not.
func TestStartWhileWriting(t *testing.T) {
	for range 20 {
		r := New(1)
		var wg sync.WaitGroup
		wg.Go(r.Start)
		wg.Go(func() { require.Empty(t, written(t, r)) })
		wg.Wait()
		r.Stop()
	}
}

// TestLastEventsAreKept: of more events than there is memory for, the last ones, without a
// gap, and not much fewer than there is room for: a thread that fired once keeps one chunk, and
// the chunk that is being filled may be empty.
func TestLastEventsAreKept(t *testing.T) {
	p := stapsdt.NewProvider("p")
	probe := stapsdt.NewProbe2[int64, string](p, "event", "n", "text")
	for size, want := range map[int64]int64{math.MaxInt64: recording.MaxBytes, 0: 16 << 20, 1: recording.MinBytes, -1: recording.MinBytes} {
		require.Equal(t, want, New(size, p).size)
	}
	// Where the scheduler moves the goroutine, the threads that it leaves are other threads.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for size, others := range map[int64]int{1: 0, recording.MinBytes: 1, 8 * recording.ChunkBytes: 3} {
		r := New(size, p)
		r.Start()
		const fires = 30_000
		fire := func(n int64) { probe.Fire(n, strings.Repeat("x", int(n%100))) }
		leave := make(chan struct{})
		for n := range others {
			fired := make(chan struct{})
			go func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				fire(int64(n))
				close(fired)
				<-leave
			}()
			<-fired
		}
		for n := int64(others); n < fires; n++ {
			fire(n)
		}
		r.Stop()
		close(leave)
		lines := written(t, r)
		// An event's text has 0 to 99 bytes. Readings of the clock and the ends of chunks take room, too.
		const perEvent = int64(recording.RecordHeadBytes + 16 + 4 + 50)
		const perChunk = recording.ChunkBytes / perEvent
		chunks := max(size, recording.MinBytes) / recording.ChunkBytes
		require.Greater(t, int64(len(lines)), (chunks-int64(others)-1)*perChunk*98/100)
		require.LessOrEqual(t, int64(len(lines)), chunks*perChunk)
		for i, l := range lines {
			n := fires - len(lines) + i
			require.EqualValues(t, n, l.Args["n"])
			require.Len(t, l.Args["text"], n%100)
		}
		n, err := r.WriteJSON(&failingWriter{100_000})
		require.EqualError(t, err, "no room")
		require.EqualValues(t, 100_000, n)
	}
}

// TestLargestEvent: it has room in a chunk.
func TestLargestEvent(t *testing.T) {
	p := stapsdt.NewProvider("p")
	types, args := make([]stapsdt.ArgType, stapsdt.MaxArgs), make([]any, stapsdt.MaxArgs)
	for i := range types {
		types[i], args[i] = stapsdt.String, strings.Repeat(fmt.Sprint(i%10), 2*stapsdt.MaxString)
	}
	probe, err := p.AddProbe("event", types...)
	require.NoError(t, err)
	r := New(1, p)
	r.Start()
	defer r.Stop()
	for range 10 {
		require.NoError(t, probe.Fire(args...))
	}
	lines := written(t, r)
	require.GreaterOrEqual(t, len(lines), 3)
	for i, arg := range args {
		require.Equal(t, arg.(string)[:stapsdt.MaxString-1], lines[0].Args[fmt.Sprint("arg", i)])
	}
}

// TestOrderInBubble: events of the same time are in the order of their fires.
func TestOrderInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := stapsdt.NewProvider("p")
		probe := stapsdt.NewProbe1[int](p, "event", "n")
		r := New(1, p)
		r.Start()
		for n := range 4000 {
			probe.Fire(n)
		}
		r.Stop()
		lines := written(t, r)
		require.Len(t, lines, 4000)
		for n, l := range lines {
			require.EqualValues(t, n, l.Args["n"])
		}
	})
}

type failingWriter struct{ room int }

func (f *failingWriter) Write(b []byte) (int, error) {
	n := min(f.room, len(b))
	f.room -= n
	if n < len(b) {
		return n, errors.New("no room")
	}
	return n, nil
}

func TestRecordingDoesNotAllocate(t *testing.T) {
	testenv.NotRaced(t, "sync.Pool drops what it was given, at random")
	testenv.NeedsOptimization(t, "Fire is not inlined, and its arguments are allocated")
	p := stapsdt.NewProvider("p")
	probe := stapsdt.NewProbe3[int, int, string](p, "event", "goroutine", "n", "text")
	other := stapsdt.NewProbe0(p, "other")
	number := stapsdt.NewProbe2[time.Time, int](p, "number", "at", "n")
	text := stapsdt.NewProbe3[string, time.Time, time.Time](p, "text", "name", "began", "ended")
	r := New(1, p)
	r.Start()
	defer r.Stop()
	now := time.Now()
	require.Zero(t, testing.AllocsPerRun(20_000, func() {
		probe.Fire(1, 2, "text")
		other.Fire()
		number.Fire(now, 3)
		text.Fire("text", now, now)
	}))
}
