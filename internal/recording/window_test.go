package recording

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// randomWriter makes random recordings as writers do: of several shards, with readings within chunks, a time of day
// that is set forth and back, and events that were lost.
type randomWriter struct {
	*rand.Rand
	b        *builder
	ms       uint64
	realtime int64 // by which CLOCK_REALTIME is ahead
	dropped  uint64
	before   []uint64
	n        uint64
}

func (w *randomWriter) reading() Reading {
	at := int64(w.ms) * 1e6
	return Reading{Ticks: w.ticks(), Monotonic: at, Realtime: at + w.realtime}
}

func (w *randomWriter) ticks() uint64 {
	if w.b.head.Clock == Counter {
		return w.ms * 3e6
	}
	return w.ms * 1e6
}

// step lets time pass, and sets the time of day now and then, but not twice in a chunk.
func (w *randomWriter) step(set *bool) {
	w.ms += uint64(w.IntN(300))
	if *set && w.IntN(60) == 0 {
		w.realtime += int64(w.IntN(20)-10) * int64(time.Second)
		*set = false
	}
}

func (w *randomWriter) chunk(sequence uint64, set bool) {
	shard := uint32(w.IntN(len(w.before)))
	w.ms += 2
	if w.IntN(5) == 0 {
		w.dropped += uint64(w.IntN(4))
	}
	c := chunkHead{
		sequence: sequence, shard: shard, process: 7, before: w.before[shard], reading: w.reading(), dropped: w.dropped,
	}
	var records [][]byte
	for i := range 1 + w.IntN(20) {
		w.step(&set)
		if i > 0 && w.IntN(4) == 0 {
			at := w.reading()
			records = append(records, newRecord(ReadingRecord, at.Ticks, "", uint64(at.Monotonic), uint64(at.Realtime)))
			continue
		}
		w.n++
		records = append(records, newRecord(0, w.ticks(), "", w.n))
		w.before[shard]++
	}
	w.b.chunk(c, records...)
}

// recording returns a recording of chunks, of which the oldest were reused.
func (w *randomWriter) recording(chunks int) []byte {
	w.b.head.Minor, w.b.head.Shards = Minor, uint32(len(w.before))
	w.b.head.Reading = w.reading()
	for i := range chunks {
		w.chunk(uint64(i+1), w.IntN(3) == 0)
	}
	lost := w.IntN(len(w.b.chunks) / 4)
	w.b.chunks = w.b.chunks[lost:]
	w.b.head.Dropped = w.dropped + uint64(w.IntN(2))
	w.Shuffle(len(w.b.chunks), func(i, j int) { w.b.chunks[i], w.b.chunks[j] = w.b.chunks[j], w.b.chunks[i] })
	return w.b.bytes()
}

// damage changes a recording as a hostile program or a full disk does. hidden means that a window need not notice it.
func (w *randomWriter) damage(data []byte) (damaged []byte, hidden bool) {
	first := len(data) - len(w.b.chunks)*ChunkBytes
	at := first + w.IntN(len(w.b.chunks))*ChunkBytes
	switch w.IntN(6) {
	case 0: // a chunk is missing
		clear(data[at:][:8])
	case 1: // the end is missing
		data = data[:first+w.IntN(len(data)-first)]
	case 2: // the records of a chunk are anything
		for i := range 64 {
			data[at+ChunkHeadBytes+i] = byte(w.Uint32())
		}
		return data, true
	case 3: // a reading is anything
		for i := OffReading; i < OffCommitted; i++ {
			data[at+i] = byte(w.Uint32())
		}
		return data, true
	}
	return data, false
}

// within reads the events of a recording within a range of times.
func within(t *testing.T, file io.ReaderAt, size, since, until int64, passes bool) (all []string, r *Reader, err error) {
	r, err = NewPart(file, size)
	if err == nil {
		_, err = r.More()
	}
	if err != nil {
		return nil, r, err
	}
	if passes {
		r.Within(since, until)
	}
	missing := uint64(0)
	for {
		e, err := r.Next()
		if err == io.EOF {
			return all, r, nil
		}
		if err != nil {
			return all, r, err
		}
		if missing += e.Missing; e.Realtime >= since && e.Realtime <= until {
			all = append(all, fmt.Sprint(describe(e), e.Monotonic, e.Realtime, missing, r.Whole(e)))
			missing = 0
		}
	}
}

// TestWithin: a reader that passes over chunks has the events of a range of times, and the losses, of one that reads
// everything. What it passes over may be damaged.
func TestWithin(t *testing.T) {
	var chunks, read int
	for seed := range uint64(160) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := &randomWriter{
			Rand: random, b: newBuilder([]ClockKind{Monotonic, Counter}[seed%2]), ms: 1e6, realtime: 1e18, before: make([]uint64, 1+seed%4),
		}
		data, hidden := w.recording(20+random.IntN(40)), false
		if random.IntN(2) == 0 {
			data, hidden = w.damage(data)
		}
		size := int64(len(data))
		last, err := LastEvent(bytes.NewReader(data), size)
		if err == nil && !hidden {
			var latest int64
			r, err := NewPart(bytes.NewReader(data), size)
			require.NoError(t, err)
			_, err = r.More()
			require.NoError(t, err)
			for e, err := r.Next(); err == nil; e, err = r.Next() {
				latest = max(latest, e.Realtime)
			}
			require.Equal(t, latest, last, seed)
		}
		for range 4 {
			since := last - random.Int64N(int64(40*time.Second))
			until := since + random.Int64N(int64(40*time.Second))
			all, whole, err := within(t, bytes.NewReader(data), size, since, until, false)
			file := &counting{Reader: bytes.NewReader(data)}
			some, part, partErr := within(t, file, size, since, until, true)
			if err != nil || hidden {
				if partErr != nil {
					require.ErrorIs(t, partErr, ErrCorrupt)
				}
				continue
			}
			require.NoError(t, partErr)
			require.Equal(t, all, some, seed)
			require.Equal(t, whole.Lost(), part.Lost(), seed)
			require.Equal(t, whole.Missing(), part.Missing(), seed)
			chunks, read = chunks+len(w.b.chunks), read+file.records
		}
	}
	require.Less(t, float64(read), 0.7*float64(chunks))
}

// TestWithinReads: of a long recording, a window reads each head once, and the records of a few chunks.
func TestWithinReads(t *testing.T) {
	const chunks, shards = 1000, 4
	b := newBuilder(Monotonic)
	b.head.Minor, b.head.Shards = Minor, shards
	second := func(n uint64) Reading { return Reading{n * 1e9, int64(n * 1e9), int64(n*1e9) + 1e18} }
	for i := range uint64(chunks) {
		b.chunk(
			chunkHead{sequence: i + 1, shard: uint32(i % shards), process: 7, before: i / shards, reading: second(100 * i)},
			newRecord(0, 100e9*i+1e9, "", i),
		)
	}
	data := b.bytes()
	file := &counting{Reader: bytes.NewReader(data)}
	r, err := NewPart(file, int64(len(data)))
	require.NoError(t, err)
	_, err = r.More()
	require.NoError(t, err)
	require.LessOrEqual(t, file.heads, chunks+4*shards)
	require.LessOrEqual(t, file.records, shards)
	at, err := r.LastRealtime()
	require.NoError(t, err)
	require.Equal(t, second(100*(chunks-1)+1).Realtime, at)
	for _, test := range []struct {
		since, until int64
		events       int
	}{
		{at - int64(250*time.Second), at, 3}, {0, second(200).Realtime, 2}, {second(50_000).Realtime, second(50_200).Realtime, 2},
	} {
		file.heads, file.records, file.reads = 0, 0, 0
		some, _, err := within(t, file, int64(len(data)), test.since, test.until, true)
		require.NoError(t, err)
		require.Len(t, some, test.events)
		require.LessOrEqual(t, file.records, 6*shards)
		require.LessOrEqual(t, file.heads, chunks+9*shards)
		require.LessOrEqual(t, file.reads, chunks+20*shards)
	}
}
