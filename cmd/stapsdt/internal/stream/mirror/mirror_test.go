package mirror

import (
	"bytes"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"

	"github.com/stretchr/testify/require"
)

const (
	threads = 3
	size    = 512 << 10
)

func newWriter() *recorder.Writer {
	chunks := recorder.Chunks(size)
	return recorder.New(make([]byte, recorder.Size(chunks)), chunks, recorder.Options{Foreign: true})
}

func addProbe(t *testing.T, w *recorder.Writer, name string) uint32 {
	number, ok := w.AddProbe(&recording.Probe{Provider: "p", Name: name, Args: []recording.Arg{
		{Name: "n", Kind: kind.Uint64, Type: 8}, {Name: "text", Kind: kind.String, Type: kind.TypeString},
	}})
	require.True(t, ok)
	return number
}

// writing is a recording that threads write. Each event has its number within its thread, and a text of as many letters, modulo 26.
// Half of the threads have a shard each, and each thread adds another probe meanwhile.
type writing struct {
	*recorder.Writer
	fired, read [threads]atomic.Uint64
	ended       chan struct{}
}

// write writes events. A thread is at most ahead events before the reader.
func write(t *testing.T, events, ahead uint64) *writing {
	w := &writing{Writer: newWriter(), ended: make(chan struct{})}
	first := addProbe(t, w.Writer, "first")
	var group sync.WaitGroup
	for thread := range threads {
		group.Go(func() {
			number := first
			append := func(n uint64, list []uint64, texts []string) {
				w.AppendForeign(number, w.Now(), uint32(100+thread), 1, list, texts)
			}
			if thread > 0 {
				shard := w.Shard(uint32(100 + thread))
				append = func(n uint64, list []uint64, texts []string) { shard.Append(number, w.Now(), 7, list, texts) }
			}
			for n := range events {
				if n == events/2 {
					number = addProbe(t, w.Writer, "second"+string(rune('0'+thread)))
				}
				text := "abcdefghijklmnopqrstuvwxyz"[:n%26]
				append(n, []uint64{n, uint64(len(text))}, []string{text})
				w.fired[thread].Add(1)
				for n >= w.read[thread].Load()+ahead {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	go func() { group.Wait(); w.Close(); close(w.ended) }()
	return w
}

// reading compares what a mirror has with what was written.
type reading struct {
	of     *writing // or nil
	mirror *Mirror
	reader *recording.Reader
	next   [threads]uint64
	seen   uint64
}

// apply applies a frame, and reads the events that are there afterwards.
func (r *reading) apply(t *testing.T, f *Frame) {
	require.NoError(t, r.mirror.Apply(f))
	if r.reader == nil {
		var err error
		r.reader, err = recording.NewReader(r.mirror)
		require.NoError(t, err)
	}
	for more := true; more; {
		var err error
		more, err = r.reader.MoreUntil(math.MaxInt64, false)
		require.NoError(t, err)
		for {
			e, err := r.reader.Next()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			thread, n := e.PID-100, e.Word(0)
			require.GreaterOrEqual(t, n, r.next[thread], "no event is there twice, and each is after those before it")
			require.Equal(t, "abcdefghijklmnopqrstuvwxyz"[:n%26], string(e.Text(1)))
			r.next[thread] = n + 1
			if r.seen++; r.of != nil {
				r.of.read[thread].Store(n + 1)
			}
		}
	}
}

// TestMirror: a reader of the mirror finds each event that is written meanwhile, in its order, or counts it as lost if the sender was
// overtaken, as it is when a frame is read only after more was written than the recording has room for.
func TestMirror(t *testing.T) {
	for name, c := range map[string]struct{ events, ahead, after uint64 }{
		"in time":   {10_000, 1000, 0},
		"overtaken": {100_000, math.MaxUint64 / 2, 50_000},
	} {
		t.Run(name, func(t *testing.T) {
			w := write(t, c.events, c.ahead)
			from, to := io.Pipe()
			sent := make(chan error, 1)
			go func() {
				s, err := NewSender(to, w)
				if err == nil {
					err = s.Run(w.ended)
				}
				sent <- err
			}()
			r := &reading{of: w, mirror: New(w.Bytes())}
			for isLast := false; !isLast; {
				f, err := Read(from)
				require.NoError(t, err)
				for w.fired[0].Load() < c.after {
					time.Sleep(time.Millisecond)
				}
				r.apply(t, f)
				isLast = f.Last()
			}
			require.NoError(t, <-sent)
			var fired uint64
			for i := range w.fired {
				fired += w.fired[i].Load()
			}
			require.EqualValues(t, threads*c.events, fired)
			require.Equal(t, fired, r.seen+r.reader.Lost())
			require.Equal(t, c.after > 0, r.reader.Lost() > 0, "%d of %d were lost", r.reader.Lost(), fired)
			require.Len(t, r.reader.Probes(), 1+threads)
			more, err := r.reader.More() // reads the head, as MoreUntil does not if nothing else is new
			require.NoError(t, err)
			require.False(t, more)
			require.True(t, r.reader.Head().Ended)
		})
	}
}

// TestDropped: events that found no room in the recording are missing in the mirror, and counted.
func TestDropped(t *testing.T) {
	w := newWriter()
	number := addProbe(t, w, "first")
	var out bytes.Buffer
	s, err := NewSender(&out, w)
	require.NoError(t, err)
	r := &reading{mirror: New(w.Bytes())}
	for range 3 {
		w.AppendForeign(number, w.Now(), 100, 1, []uint64{0, 0}, []string{""})
		r.next[0], r.seen = 0, 0
		w.DropSome(5)
		_, err := s.Send()
		require.NoError(t, err)
		f, err := Read(&out)
		require.NoError(t, err)
		require.False(t, f.Last())
		r.apply(t, f)
		require.EqualValues(t, 1, r.seen)
	}
	require.EqualValues(t, 15, r.reader.Lost())
	_, err = s.Send()
	require.NoError(t, err)
	require.Equal(t, frameHeadBytes+bodyHeadBytes, out.Len(), "nothing has changed")
}

// frame returns a frame with patches.
func frame(patches ...any) []byte {
	body := make([]byte, bodyHeadBytes)
	for i := 0; i < len(patches); i += 2 {
		b := patches[i+1].([]byte)
		body = le.AppendUint64(le.AppendUint64(body, uint64(patches[i].(int))), uint64(len(b)))
		body = append(body, b...)
	}
	s := &Sender{frame: append(make([]byte, frameHeadBytes), body...)}
	var out bytes.Buffer
	s.out = &out
	_, _ = s.write()
	return out.Bytes()
}

// TestHostile: whatever a pod sends takes no more memory than was asked for, and is an error.
func TestHostile(t *testing.T) {
	head := &recording.Head{Major: recording.Major, Clock: recording.Monotonic, Chunks: 4, Shards: 1, TableBytes: 4096}
	whole := head.Encode()
	head.Chunks = 1 << 18
	large := head.Encode()
	for name, c := range map[string]struct {
		sent []byte
		err  error
	}{
		"nothing":        {nil, io.EOF},
		"half a frame":   {frame(0, whole)[:100], io.EOF},
		"a large frame":  {[]byte{0, 0, 0, 255, 0, 0, 0, 0}, ErrDamaged},
		"a small frame":  {[]byte{1, 0, 0, 0, 0, 0, 0, 0}, ErrDamaged},
		"a changed byte": {append(frame(0, whole)[:200], bytes.Repeat([]byte{1}, 5000)...), ErrDamaged},
		"no head":        {frame(), ErrDamaged},
		"not a head":     {frame(0, []byte("text")), recording.ErrCorrupt},
		"a large head":   {frame(0, large), ErrDamaged},
		"head elsewhere": {frame(8, whole), ErrDamaged},
		"beyond the end": {frame(0, whole, 1<<20, whole), ErrDamaged},
		"before":         {frame(0, whole, -8, whole), ErrDamaged},
	} {
		f, err := Read(bytes.NewReader(c.sent))
		if err == nil {
			err = New(recorder.Size(4)).Apply(f)
		}
		require.ErrorIs(t, err, c.err, name)
	}
	f, err := Read(bytes.NewReader(frame(0, whole)))
	require.NoError(t, err)
	f.body = f.body[:len(f.body)-1]
	require.ErrorIs(t, New(recorder.Size(4)).Apply(f), ErrDamaged)
	f.body = f.body[:bodyHeadBytes+patchHeadBytes-1]
	require.ErrorIs(t, New(recorder.Size(4)).Apply(f), ErrDamaged)
}
