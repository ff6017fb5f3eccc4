package recorder

import (
	"bytes"
	"errors"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// TestShard: each process has its shard, in which its events have their goroutines, or their threads
// if the shard has no PID. The oldest events are lost, and counted.
func TestShard(t *testing.T) {
	w := newWriter(t, 1<<20, Options{Foreign: true})
	number, ok := w.AddProbe(integers(1))
	require.True(t, ok)
	goroutines, threads := w.Shard(5), w.Shard(0)
	const events = 30_000
	for i := range uint64(events) {
		goroutines.Append(number, 3*i, 1<<40+i, []uint64{3 * i}, nil)
		threads.Append(number, 3*i+1, (10+i)<<32+i, []uint64{3*i + 1}, nil)
		w.AppendForeign(number, 3*i+2, 1, uint32(i), []uint64{3*i + 2}, nil)
	}
	w.DropSome(5)
	w.Close()
	r := eventtest.Read(t, w)
	seen := uint64(0)
	for e := range eventtest.Events(t, r) {
		at := e.Word(0)
		i := uint32(at / 3)
		want := [][]uint64{{5, 0, 1<<40 + uint64(i)}, {uint64(10 + i), uint64(i), 0}, {1, uint64(i), 0}}[at%3]
		require.Equal(t, want, []uint64{uint64(e.PID), uint64(e.TID), e.Goroutine})
		require.EqualValues(t, at, e.Monotonic)
		seen++
	}
	require.EqualValues(t, 3*events+5, seen+r.Lost())
	require.Greater(t, seen, uint64(10_000))
	require.Greater(t, r.Lost(), uint64(10_000))
}

// TestShardReleased: a shard that was released is another process's, and keeps the first one's events.
func TestShardReleased(t *testing.T) {
	w := newWriter(t, 1<<20, Options{Foreign: true})
	number, ok := w.AddProbe(integers(1))
	require.True(t, ok)
	var all []*Shard
	for s := w.Shard(100); s != nil; s = w.Shard(uint32(100 + len(all))) {
		all = append(all, s)
	}
	require.Len(t, all, 16/2-1, "half of the chunks, and one for the others")
	all[3].Append(number, 1, 7, []uint64{1}, nil)
	all[3].Release()
	s := w.Shard(200)
	require.Nil(t, w.Shard(201))
	s.Append(number, 2, 8, []uint64{2}, nil)
	r := eventtest.Read(t, w)
	var have [][3]uint64
	for e := range eventtest.Events(t, r) {
		have = append(have, [3]uint64{e.Word(0), uint64(e.PID), e.Goroutine})
	}
	require.Equal(t, [][3]uint64{{1, 103, 7}, {2, 200, 8}}, have)
	require.Zero(t, r.Lost())
}

// TestFill: records that are written to a chunk's room are readable together, when all are there.
func TestFill(t *testing.T) {
	w := newWriter(t, 1<<20, Options{Foreign: true})
	number, ok := w.AddProbe(integers(1))
	require.True(t, ok)
	s := w.Shard(5)
	s.Fill(func([]byte) (int, uint64) { panic("there is no chunk") })
	s.Append(number, 1, 7, []uint64{1}, nil)
	r := eventtest.Read(t, w)
	source := w.memory[w.offset(s.shared.base):w.offset(s.shared.next)]
	record := append([]byte(nil), source...)
	s.Fill(func(room []byte) (size int, events uint64) {
		require.Len(t, room, recording.ChunkBytes-recording.ChunkHeadBytes-len(record))
		for len(room)-size >= len(record) {
			size, events = size+copy(room[size:], record), events+1
		}
		_, err := r.Next()
		require.NoError(t, err)
		more, err := r.More()
		require.NoError(t, err)
		require.False(t, more)
		return size, events
	})
	more, err := r.More()
	require.NoError(t, err)
	require.True(t, more)
	seen := uint64(1)
	for e := range eventtest.Events(t, r) {
		require.EqualValues(t, 1, e.Word(0))
		seen++
	}
	require.EqualValues(t, (recording.ChunkBytes-recording.ChunkHeadBytes)/len(record), seen)
	require.Equal(t, seen, s.shared.events)
	require.Zero(t, r.Lost())
}

// written is the file of a recording in memory. It counts the bytes that are written to it.
type written struct {
	memory []byte
	bytes  int
	err    error
}

func (f *written) WriteAt(b []byte, offset int64) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	f.bytes += len(b)
	return copy(f.memory[offset:], b), nil
}

// TestFillFile: many records are written to the file, before they are readable, and few to the memory. If the file cannot be written, the
// recording ends without them.
func TestFillFile(t *testing.T) {
	file := &written{}
	w := newWriter(t, 1<<20, Options{Foreign: true, File: file})
	file.memory = w.memory
	number, ok := w.AddProbe(integers(1))
	require.True(t, ok)
	s := w.Shard(5)
	s.Append(number, 1, 7, []uint64{1}, nil)
	record := append([]byte(nil), w.memory[w.offset(s.shared.base):w.offset(s.shared.next)]...)
	r := eventtest.Read(t, w)
	_, err := r.Next()
	require.NoError(t, err)
	fill := func(n int) (seen int) {
		s.Fill(func(room []byte) (size int, events uint64) {
			return copy(room, bytes.Repeat(record, n)), uint64(n)
		})
		_, err := r.More()
		require.NoError(t, err)
		for e := range eventtest.Events(t, r) {
			require.EqualValues(t, 1, e.Word(0))
			seen++
		}
		return seen
	}
	require.Equal(t, 3, fill(3))
	require.Zero(t, file.bytes)
	require.Equal(t, 1000, fill(1000))
	require.Equal(t, 1000*len(record), file.bytes)
	file.err = errors.New("the disk failed")
	require.Zero(t, fill(500))
	require.True(t, w.Failed())
	require.Zero(t, r.Lost())
}
