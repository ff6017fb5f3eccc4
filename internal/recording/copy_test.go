package recording

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// seen is an event as Next has returned it, without the fields of which a copy has its own.
type seen struct {
	at             int64
	name, text     string
	pid, tid       uint32
	goroutine, one uint64
}

func see(e *Event) seen {
	s := seen{
		at: int64(e.Monotonic), name: e.Probe.Name, pid: e.PID, tid: e.TID, goroutine: e.Goroutine,
		one: e.Word(len(e.Probe.Args) - 1),
	}
	if e.Probe.Name == "text" {
		s.text = string(e.Text(0))
	}
	return s
}

// nextAll returns the events of a recording until its end, or an error.
func nextAll(t *testing.T, file []byte) (all []seen, lost Missing, err error) {
	r, err := NewReader(bytes.NewReader(file))
	require.NoError(t, err)
	for _, err = r.More(); err == nil; {
		var e *Event
		if e, err = r.Next(); err == nil {
			all = append(all, see(e))
		}
	}
	return all, r.Missing(), err
}

// copyAll is nextAll by Copy, which has room for a number of bytes each time, and by Next for what
// Copy leaves. It also returns the number of events that were copied.
func copyAll(t *testing.T, file []byte, room int, to *Destination) (all []seen, copied uint64, lost Missing, err error) {
	r, err := NewReader(bytes.NewReader(file))
	require.NoError(t, err)
	b := newBuilder(Monotonic)
	for _, err = r.More(); err == nil; {
		out := make([]byte, room)
		var size int
		var events uint64
		size, events, err = r.Copy(out, to)
		head := chunkHead{sequence: 1, process: to.PID, committed: uint64(size)}
		if to.Threads {
			head.process = 0
		}
		b.chunks = nil
		b.chunk(head, out[:size])
		some, _, end := nextAll(t, b.bytes())
		require.Equal(t, io.EOF, end)
		require.Len(t, some, int(events))
		all, copied = append(all, some...), copied+events
		var e *Event
		if err == nil {
			if e, err = r.Next(); err == nil {
				all = append(all, see(e))
			}
		}
	}
	return all, copied, r.Missing(), err
}

// destination returns what the copies of newBuilder's probes need. The copy has the same probes.
func destination() *Destination {
	b := newBuilder(Monotonic)
	probes, _ := DecodeProbes(b.table)
	return &Destination{
		Targets: []Target{NewTarget(probes[0], 0), NewTarget(probes[1], 1)}, TextSize: 100, PID: 7,
	}
}

// interleaved returns a recording of two shards that take turns, with Readings and lost events.
func interleaved(clock ClockKind, process uint32) *builder {
	b := newBuilder(clock)
	ticks := uint64(1000)
	for i := range 6 {
		shard := uint32(i % 2)
		head := chunkHead{
			sequence: uint64(i + 1), shard: shard, process: process, before: uint64(i / 2 * 55),
			reading: Reading{ticks, 5e9 + int64(ticks)/3, 7e9 + int64(ticks)/3},
		}
		var records [][]byte
		for j := range 40 {
			at := ticks + uint64(j*100+j%7*int(shard))
			switch j % 4 {
			case 0:
				records = append(records, newRecord(1, at, strings.Repeat("é", j), uint64(2*j), 0x3f800000))
			case 1:
				reading := newRecord(ReadingRecord, at, "", uint64(5e9+int64(at)/3), uint64(7e9+int64(at)/3))
				records = append(records, reading)
			}
			records = append(records, newRecord(0, at+1, "", uint64(i*100+j)))
		}
		b.chunk(head, records...)
		if ticks += 50; shard == 1 {
			ticks += 5000
		}
	}
	return b
}

// TestCopy: what Copy copies has the time, the origin and the arguments that Next returns.
func TestCopy(t *testing.T) {
	for _, clock := range []ClockKind{Monotonic, Counter} {
		for _, process := range []uint32{7, 0} {
			for _, room := range []int{ChunkBytes, 1000, 0} {
				file := interleaved(clock, process).bytes()
				want, wantLost, _ := nextAll(t, file)
				to := destination()
				if to.Threads = process == 0; to.Threads {
					to.PID = 0 // of the records, whose origin is 99
				}
				all, copied, lost, err := copyAll(t, file, room, to)
				require.Equal(t, io.EOF, err)
				require.Equal(t, want, all)
				require.Equal(t, wantLost, lost)
				require.Zero(t, lost.Before)
				require.EqualValues(t, 4*5, lost.Between)
				require.Equal(t, room > 0, copied > 100, copied)
			}
		}
	}
}

// TestCopyOthers: the copy has other numbers of probes and another process, and lacks probes that
// are skipped. It has no goroutine where it states threads.
func TestCopyOthers(t *testing.T) {
	file := interleaved(Counter, 7).bytes()
	r, err := NewReader(bytes.NewReader(file))
	require.NoError(t, err)
	_, err = r.More()
	require.NoError(t, err)
	to := destination()
	to.Targets[0], to.Targets[1].number, to.Threads, to.PID = Skip, 5, true, 0x89abcdef
	out := make([]byte, ChunkBytes)
	size, events, err := r.Copy(out, to)
	require.NoError(t, err)
	require.EqualValues(t, 60, events)
	for out = out[:size]; len(out) > 0; events-- {
		rec, ok := recordAt(out)
		require.True(t, ok)
		require.EqualValues(t, 5, rec.number)
		require.Equal(t, uint64(0x89abcdef)<<32, rec.origin)
		out = out[rec.size:]
	}
	require.Zero(t, events)
	passed, _ := r.Position()
	require.EqualValues(t, 2*(2*55+50), passed, "skipped and lost events count")
}

// TestCopyUntil: no event after the time of MoreUntil is copied.
func TestCopyUntil(t *testing.T) {
	file := interleaved(Monotonic, 7).bytes()
	all, _, _ := nextAll(t, file)
	until := all[len(all)/2].at
	r, err := NewReader(bytes.NewReader(file))
	require.NoError(t, err)
	_, err = r.MoreUntil(time.Duration(until), true)
	require.NoError(t, err)
	_, events, err := r.Copy(make([]byte, ChunkBytes), destination())
	require.NoError(t, err)
	end := slices.IndexFunc(all, func(s seen) bool { return s.at > until })
	require.EqualValues(t, end, events)
	_, err = r.Next()
	require.Equal(t, io.EOF, err)
}

// TestCopyHostile: bytes that no writer writes have the same effect as without Copy, and never one
// outside of the copy.
func TestCopyHostile(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	differ := 0
	for range 600 {
		b := interleaved(Counter, 7)
		chunk := b.chunks[random.IntN(len(b.chunks))]
		for range 1 + random.IntN(3) {
			at := ChunkHeadBytes + random.IntN(4000)
			switch random.IntN(3) {
			case 0:
				chunk[at] ^= byte(1 << random.IntN(8))
			case 1: // a size, a length or a time
				copy(chunk[at&^7:], bytes.Repeat([]byte{0xff}, 8))
			case 2:
				copy(chunk[at&^7:], chunk[ChunkHeadBytes+random.IntN(4000)&^7:][:8])
			}
		}
		file := b.bytes()
		want, wantLost, wantErr := nextAll(t, file)
		all, _, lost, err := copyAll(t, file, 4096, destination())
		require.Equal(t, fmt.Sprint(wantErr), fmt.Sprint(err))
		require.Equal(t, wantLost, lost)
		require.Len(t, all, len(want))
		for i := range want {
			if want[i] != all[i] {
				differ++
			}
		}
	}
	require.Zero(t, differ)
}

// TestCopyText: after a text there are only zeros. A text that is too long and a record with more than
// its arguments are left to Next.
func TestCopyText(t *testing.T) {
	b := newBuilder(Monotonic)
	for _, n := range []int{0, 1, 7, 8, 9, 100} {
		record := newRecord(1, 1, strings.Repeat("a", n), uint64(n), 0)
		copy(record[RecordHeadBytes+16+n:], "12345678")
		b.chunks = nil
		left := newRecord(1, 2, strings.Repeat("a", 101), 101, 0)
		if n%2 == 0 {
			left = newRecord(1, 2, strings.Repeat("a", 8), 8, 0)
			left[0] += 8
			left = append(left, make([]byte, 8)...)
		}
		b.chunk(chunkHead{sequence: 1, process: 7}, record, left)
		r, err := NewReader(bytes.NewReader(b.bytes()))
		require.NoError(t, err)
		_, err = r.More()
		require.NoError(t, err)
		out := make([]byte, ChunkBytes)
		size, events, err := r.Copy(out, destination())
		require.NoError(t, err)
		require.EqualValues(t, 1, events)
		text := string(out[RecordHeadBytes+16 : size])
		require.Equal(t, strings.Repeat("a", n)+strings.Repeat("\x00", 8-n%8), text)
		e, err := r.Next()
		require.NoError(t, err)
		require.Len(t, e.Text(0), map[bool]int{false: 101, true: 8}[n%2 == 0])
	}
}
