package recording

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/kind"

	"github.com/stretchr/testify/require"
)

// builder makes a recording without a writer: what a writer of another version, or an attacker, could
// leave.
type builder struct {
	head   Head
	table  []byte
	chunks [][]byte
}

func (b *builder) probe(p *Probe) { b.table = p.Append(b.table) }

// chunk adds a chunk with records.
func (b *builder) chunk(c chunkHead, records ...[]byte) {
	all := make([]byte, ChunkBytes)
	at := ChunkHeadBytes
	for _, r := range records {
		at += copy(all[at:], r)
	}
	if c.committed == 0 {
		c.committed = uint64(at - ChunkHeadBytes)
	}
	c.put(all)
	b.chunks = append(b.chunks, all)
}

func (b *builder) bytes() []byte {
	b.head.TableBytes, b.head.TableUsed = 4096, uint64(len(b.table))
	b.head.Chunks = uint64(len(b.chunks))
	out := append(b.head.Encode(), append(b.table, make([]byte, 4096-len(b.table))...)...)
	if b.head.Minor >= latestMinor {
		for _, c := range b.chunks {
			latest := max(binary.LittleEndian.Uint64(out[OffLatest:]), decodeChunkHead(c).sequence)
			binary.LittleEndian.PutUint64(out[OffLatest:], latest)
		}
	}
	return append(out, bytes.Join(b.chunks, nil)...)
}

// newBuilder returns a builder of a recording with a probe of an integer, p:n, and one of a text and a
// float32, p:text.
func newBuilder(clock ClockKind) *builder {
	b := &builder{head: Head{Major: Major, Clock: clock, Shards: 2, PID: 7}}
	b.probe(&Probe{Provider: "p", Name: "n", Args: []Arg{{Name: "n", Type: 8, Kind: kind.Uint64}}})
	b.probe(&Probe{Provider: "p", Name: "text", Args: []Arg{{Name: "text", Type: kind.TypeString, Kind: kind.String}, {Name: "f", Type: kind.TypeFloat32, Kind: kind.Float64}}})
	return b
}

// newRecord returns a record with words and a text.
func newRecord(number uint32, ticks uint64, text string, words ...uint64) []byte {
	le := binary.LittleEndian
	var b []byte
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, number)
	b = le.AppendUint64(b, ticks)
	b = le.AppendUint64(b, 99) // the goroutine
	for _, w := range words {
		b = le.AppendUint64(b, w)
	}
	if number == 1 {
		b = append(b, text...)
		b = append(b, make([]byte, 8-len(text)%8)...)
	}
	le.PutUint32(b, uint32(len(b)))
	return b
}

// more looks for more events of p:n, and returns their first arguments, and whether there were any.
func more(t *testing.T, r *Reader) (list []uint64, more bool) {
	more, err := r.More()
	require.NoError(t, err)
	return listed(t, r), more
}

// moreUntil is more for events until a time, with a look that is not thorough.
func moreUntil(t *testing.T, r *Reader, until time.Duration) (list []uint64, more bool) {
	more, err := r.MoreUntil(until, false)
	require.NoError(t, err)
	return listed(t, r), more
}

// listed returns the first arguments of the events that were found.
func listed(t *testing.T, r *Reader) (list []uint64) {
	for {
		e, err := r.Next()
		if err == io.EOF {
			return list
		}
		require.NoError(t, err)
		list = append(list, e.Word(0))
	}
}

// TestReader reads what the format can say: two shards, a chunk that is missing, values of each kind.
func TestReader(t *testing.T) {
	b := newBuilder(Monotonic)
	b.head.Dropped = 5
	b.chunk(chunkHead{sequence: 9, shard: 0, process: 7, before: 13}, newRecord(0, 50, "", 5))
	b.chunk(chunkHead{sequence: 4, shard: 0, process: 7, before: 10, reading: Reading{10, 10, 1010}}, newRecord(0, 10, "", 1), newRecord(0, 30, "", 3))
	b.chunk(chunkHead{})
	b.chunk(chunkHead{sequence: 6, shard: 1, reading: Reading{20, 20, 1020}}, newRecord(0, 20, "", 2), newRecord(1, 40, "text", 4, 0x3f000000))
	r, err := NewReader(bytes.NewReader(b.bytes()))
	require.NoError(t, err)
	more, err := r.More()
	require.NoError(t, err)
	require.True(t, more)
	var seen []uint64
	for {
		e, err := r.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		require.EqualValues(t, e.Ticks, e.Monotonic)
		seen = append(seen, e.Ticks)
		switch e.Ticks {
		case 20:
			require.EqualValues(t, 1020, e.Realtime)
			require.Equal(t, []uint32{0, 99}, []uint32{e.PID, e.TID})
		case 30:
			require.EqualValues(t, 1030, e.Realtime)
			require.EqualValues(t, 7, e.PID)
			require.EqualValues(t, 99, e.Goroutine)
			require.EqualValues(t, 3, e.Word(0))
		case 40:
			require.Equal(t, "text", string(e.Text(0)))
			require.EqualValues(t, 4, e.Word(0))
			require.Equal(t, uint64(0x3fe0000000000000), e.Word(1))
		}
	}
	require.Equal(t, []uint64{10, 20, 30, 40, 50}, seen)
	require.EqualValues(t, 5+10+1, r.Lost(), "dropped, before the first chunk, and between the chunks")
	more, err = r.More()
	require.NoError(t, err)
	require.False(t, more)
}

// TestVersions: every minor version is read, with records that this one does not know, and no other major
// version.
func TestVersions(t *testing.T) {
	b := newBuilder(Monotonic)
	b.head.Minor = 7
	b.chunk(chunkHead{sequence: 1, process: 1}, newRecord(0, 1, "", 1), newRecord(maxProbe+1, 2, "", 1, 2, 3), newRecord(0, 3, "", 3))
	r, err := NewReader(bytes.NewReader(b.bytes()))
	require.NoError(t, err)
	list, _ := more(t, r)
	require.Equal(t, []uint64{1, 3}, list)
	require.Zero(t, r.Lost())
	for _, major := range []uint16{0, Major + 1} {
		b.head.Major = major
		_, err := NewReader(bytes.NewReader(b.bytes()))
		require.ErrorIs(t, err, ErrVersion)
	}
}

// TestClock: readings relate the counter to the other clocks, also if the machine was suspended, and if
// the counter began again.
func TestClock(t *testing.T) {
	const second = uint64(time.Second)
	b := newBuilder(Counter) // of 3 ticks per nanosecond
	b.head.Reading = Reading{0, 0, 1000}
	b.chunk(chunkHead{sequence: 1, process: 1, reading: Reading{0, 0, 1000}}, newRecord(0, 3*second/2, "", 0),
		newRecord(ReadingRecord, 3*second, "", second, second+1000), newRecord(0, 3*second+300, "", 1))
	b.chunk(chunkHead{sequence: 2, process: 1, before: 2, reading: Reading{6 * second, int64(2 * second), 0}}, newRecord(0, 6*second+3, "", 2))
	// An hour passed while the monotonic clock stood still.
	b.chunk(chunkHead{sequence: 3, process: 1, before: 3, reading: Reading{3600 * 3 * second, int64(3 * second), 0}}, newRecord(0, 3600*3*second+3000, "", 3))
	// The counter began again.
	b.chunk(chunkHead{sequence: 4, process: 1, before: 4, reading: Reading{30, int64(4 * second), 0}}, newRecord(0, 33, "", 4))
	r, err := NewReader(bytes.NewReader(b.bytes()))
	require.NoError(t, err)
	_, err = r.More()
	require.NoError(t, err)
	for _, want := range []uint64{second / 2, second + 100, 2*second + 1, 3*second + 1000, 4*second + 1} {
		e, err := r.Next()
		require.NoError(t, err)
		require.InDelta(t, want, e.Monotonic, 2)
	}
}

// TestRateChanges: events between two readings of a shard are dated between them, in a chunk and from one chunk
// to the next, when the rate of the counter has changed because the machine was moved.
func TestRateChanges(t *testing.T) {
	const second = uint64(time.Second)
	b := newBuilder(Counter) // of 1 tick per nanosecond for 10 s, and of 1.25 then
	b.head.Reading = Reading{0, 0, 1000}
	b.chunk(chunkHead{sequence: 1, process: 1, reading: Reading{second, int64(second), int64(second + 1000)}},
		newRecord(0, 5*second, "", 0),
		newRecord(ReadingRecord, 10*second, "", 10*second, 10*second+1000), newRecord(0, 16*second+second/4, "", 1))
	b.chunk(chunkHead{sequence: 2, process: 1, before: 2, reading: Reading{22*second + second/2, int64(20 * second), int64(20*second + 1000)}},
		newRecord(0, 30*second, "", 2), newRecord(ReadingRecord, 35*second, "", 30*second, 30*second+1000), newRecord(0, 35*second+8, "", 3))
	r, err := NewReader(bytes.NewReader(b.bytes()))
	require.NoError(t, err)
	_, err = r.More()
	require.NoError(t, err)
	for _, want := range []uint64{5 * second, 15 * second, 26 * second} {
		e, err := r.Next()
		require.NoError(t, err)
		require.InDelta(t, want, e.Monotonic, 2)
		require.InDelta(t, want+1000, e.Realtime, 2)
	}
	e, err := r.Next()
	require.NoError(t, err)
	require.InDelta(t, 30*second+7, e.Monotonic, 1) // by the median, because no reading follows
}

// TestClockGoesOn: the rate of the counter is learned again from a reading that is much later than the first ones, and
// not from each.
func TestClockGoesOn(t *testing.T) {
	const ms, second = uint64(time.Millisecond), uint64(time.Second)
	b := newBuilder(Counter) // of 3 ticks per nanosecond, although the first readings suggest 2
	b.chunk(chunkHead{sequence: 1, process: 1, reading: Reading{4 * ms, int64(2 * ms), 0}}, newRecord(0, 4*ms+200, "", 1))
	for range 2 {
		b.chunk(chunkHead{})
	}
	data := b.bytes()
	r, err := NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	event := func(want uint64) {
		_, err = r.More()
		require.NoError(t, err)
		e, err := r.Next()
		require.NoError(t, err)
		require.InDelta(t, want, e.Monotonic, 2)
	}
	event(2*ms + 100)
	b.chunks = b.chunks[:1]
	b.chunk(chunkHead{sequence: 2, process: 1, before: 1, reading: Reading{3 * second, int64(second), 0}}, newRecord(0, 3*second+300, "", 2))
	b.chunk(chunkHead{})
	copy(data, b.bytes())
	event(second + 100)
	before := r.learned
	b.chunks = b.chunks[:2]
	b.chunk(chunkHead{sequence: 3, process: 1, before: 2, reading: Reading{3*second + 30*ms, int64(second + 10*ms), 0}}, newRecord(0, 3*second+30*ms+3, "", 3))
	copy(data, b.bytes())
	event(second + 10*ms + 1)
	require.Equal(t, before, r.learned)
}

// swapped is a recording of which a chunk is replaced when it is read for the n-th time.
type swapped struct {
	data  []byte
	chunk int64
	n     int
	swap  func(data []byte)
}

func (s *swapped) ReadAt(b []byte, offset int64) (int, error) {
	if offset >= s.chunk && offset < s.chunk+ChunkBytes {
		if s.n--; s.n == 0 {
			s.swap(s.data)
		}
	}
	return bytes.NewReader(s.data).ReadAt(b, offset)
}

// growing is a recording to which a writer appends at the nth look at a chunk.
type growing struct {
	*bytes.Reader
	n    int
	grow func()
	at   int64
}

func (g *growing) ReadAt(b []byte, offset int64) (int, error) {
	if offset == g.at {
		if g.n--; g.n == 0 {
			g.grow()
		}
	}
	return g.Reader.ReadAt(b, offset)
}

// TestGrowing: nothing is lost that a shard appends to one chunk and to the next while the Reader looks for both, in either order.
func TestGrowing(t *testing.T) {
	for minor := range uint16(latestMinor + 1) {
		t.Run("all", func(t *testing.T) { testGrowing(t, math.MaxInt64, minor) })
		t.Run("until now", func(t *testing.T) { testGrowing(t, time.Hour, minor) })
	}
}

func testGrowing(t *testing.T, until time.Duration, minor uint16) {
	for n := 3; n < 24; n++ {
		for _, order := range [][3]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
			before, after := newBuilder(Monotonic), newBuilder(Monotonic)
			before.head.Minor, after.head.Minor = minor, minor
			full := [][]byte{newRecord(0, 1, "", 1), newRecord(0, 2, "", 2), newRecord(0, 3, "", 3)}
			now := [3][][]byte{full[:1], nil, nil}
			later := [3][][]byte{full, {newRecord(0, 4, "", 4)}, {newRecord(0, 5, "", 5), newRecord(0, 6, "", 6)}}
			for _, i := range order {
				head := chunkHead{sequence: uint64(i + 1), process: 1, before: []uint64{0, 3, 4}[i]}
				after.chunk(head, later[i]...)
				if now[i] == nil {
					head = chunkHead{}
				}
				before.chunk(head, now[i]...)
			}
			data, grown := before.bytes(), after.bytes()
			require.Len(t, grown, len(data))
			file := &growing{
				Reader: bytes.NewReader(data), n: n / 3, grow: func() { copy(data, grown) }, at: int64(len(data) - (1+n%3)*ChunkBytes),
			}
			r, err := NewReader(file)
			require.NoError(t, err)
			var seen []uint64
			for range 6 {
				list, _ := moreUntil(t, r, until)
				seen = append(seen, list...)
			}
			if file.n > 0 {
				continue // it was not looked at as often
			}
			require.Equal(t, []uint64{1, 2, 3, 4, 5, 6}, seen, "%d %v", n, order)
			require.Zero(t, r.Lost())
		}
	}
}

// TestBegun: nothing is lost that a shard appends to a chunk during the look, if it has also begun the next chunk, but has not
// yet stored its number.
func TestBegun(t *testing.T) {
	before, after := newBuilder(Monotonic), newBuilder(Monotonic)
	before.head.Minor, after.head.Minor = latestMinor, latestMinor
	full := [][]byte{newRecord(0, 1, "", 1), newRecord(0, 2, "", 2)}
	before.chunk(chunkHead{sequence: 1, process: 1}, full[0])
	before.chunk(chunkHead{})
	after.chunk(chunkHead{sequence: 1, process: 1}, full...)
	after.chunk(chunkHead{sequence: 2, process: 1, before: 2})
	data, grown := before.bytes(), after.bytes()
	chunks := len(data) - 2*ChunkBytes
	file := &growing{
		Reader: bytes.NewReader(data), n: 1, grow: func() { copy(data[chunks:], grown[chunks:]) }, at: int64(chunks + ChunkBytes),
	}
	r, err := NewReader(file)
	require.NoError(t, err)
	list, _ := more(t, r)
	require.Equal(t, []uint64{1, 2}, list)
	require.Zero(t, r.Lost())
}

// TestQuiet: a reader that has found nothing reads a few words of a silent recording, and finds what is committed or dropped
// then, wherever that is.
func TestQuiet(t *testing.T) {
	b := newBuilder(Monotonic)
	for range 8 {
		b.chunk(chunkHead{})
	}
	data := b.bytes()
	file := &counting{Reader: bytes.NewReader(data)}
	r, err := NewReader(file)
	require.NoError(t, err)
	until := time.Hour
	_, found := moreUntil(t, r, until)
	require.False(t, found)
	file.reads, file.heads = 0, 0
	for range 2 * thoroughQuiet {
		_, found := moreUntil(t, r, until)
		require.False(t, found)
	}
	require.LessOrEqual(t, file.reads, 2*(thoroughQuiet-1)*(1+spareChunks)+2*(1+8))
	require.Zero(t, file.heads)

	put := func(index int, c chunkHead, records ...[]byte) {
		one := newBuilder(Monotonic)
		one.chunk(c, records...)
		copy(data[len(data)-(8-index)*ChunkBytes:], one.chunks[0])
	}
	put(0, chunkHead{sequence: 1}, newRecord(0, 1, "", 1))
	list, _ := moreUntil(t, r, until)
	require.Equal(t, []uint64{1}, list)
	_, found = moreUntil(t, r, until)
	require.False(t, found)
	put(0, chunkHead{sequence: 1}, newRecord(0, 1, "", 1), newRecord(0, 2, "", 2))
	list, _ = moreUntil(t, r, until)
	require.Equal(t, []uint64{2}, list)
	binary.LittleEndian.PutUint64(data[OffDropped:], 5)
	_, found = moreUntil(t, r, until)
	require.False(t, found)
	require.EqualValues(t, 5, r.Lost())
	put(6, chunkHead{sequence: 7, shard: 1}, newRecord(0, 3, "", 3))
	for range thoroughQuiet {
		if list, found = moreUntil(t, r, until); found {
			break
		}
	}
	require.Equal(t, []uint64{3}, list)
}

// TestQuietLatest: a reader reads a word of the head of a recording whose chunks are unused, also when no order limits the events,
// and the committed size of each chunk in use. It finds what is committed then, in whichever chunk it is. If it is thorough, and
// sometimes else, it reads the number of dropped events.
func TestQuietLatest(t *testing.T) {
	for _, until := range []time.Duration{time.Hour, math.MaxInt64} {
		b := newBuilder(Monotonic)
		b.head.Minor = latestMinor
		for range 8 {
			b.chunk(chunkHead{})
		}
		data := b.bytes()
		file := &counting{Reader: bytes.NewReader(data)}
		r, err := NewReader(file)
		require.NoError(t, err)
		file.reads, file.furthest = 0, 0
		quiet := func(current int, thorough bool) {
			t.Helper()
			file.reads = 0
			found, err := r.MoreUntil(until, thorough)
			require.NoError(t, err)
			require.False(t, found)
			if thorough || r.quiet%thoroughQuiet == 0 {
				current++
			}
			require.Equal(t, 1+current, file.reads)
		}
		put := func(index int, c chunkHead, records ...[]byte) {
			one := newBuilder(Monotonic)
			one.chunk(c, records...)
			copy(data[len(data)-(8-index)*ChunkBytes:], one.chunks[0])
			binary.LittleEndian.PutUint64(data[OffLatest:], c.sequence)
		}
		for range 2 * thoroughQuiet {
			quiet(0, false)
			quiet(0, true)
		}
		require.Less(t, file.furthest, int64(HeadBytes), "no page of the chunks is read")
		put(6, chunkHead{sequence: 1, shard: 1}, newRecord(0, 1, "", 1))
		list, _ := moreUntil(t, r, until)
		require.Equal(t, []uint64{1}, list)
		quiet(1, false)
		put(6, chunkHead{sequence: 1, shard: 1}, newRecord(0, 1, "", 1), newRecord(0, 2, "", 2))
		list, _ = moreUntil(t, r, until)
		require.Equal(t, []uint64{2}, list)
		quiet(1, true)
		put(0, chunkHead{sequence: 2}, newRecord(0, 3, "", 3))
		list, _ = moreUntil(t, r, until)
		require.Equal(t, []uint64{3}, list)
		passed, known := r.Position()
		require.EqualValues(t, 3, passed)
		require.False(t, known)
		quiet(2, false)
		passed, _ = r.Position()
		require.EqualValues(t, 3, passed)
		binary.LittleEndian.PutUint64(data[OffDropped:], 5)
		for range thoroughQuiet {
			_, found := moreUntil(t, r, until)
			require.False(t, found)
		}
		require.EqualValues(t, 5, r.Lost())
		binary.LittleEndian.PutUint64(data[OffDropped:], 6)
		found, err := r.MoreUntil(until, true)
		require.NoError(t, err)
		require.False(t, found)
		require.EqualValues(t, 6, r.Lost())
		passed, _ = r.Position()
		require.EqualValues(t, 3, passed)
	}
}

// TestQuietFile: a failure of the power can leave a file with an older head, of which More reads all chunks nevertheless.
func TestQuietFile(t *testing.T) {
	b := newBuilder(Monotonic)
	b.head.Minor = latestMinor
	b.chunk(chunkHead{sequence: 1, process: 1}, newRecord(0, 1, "", 1))
	data := b.bytes()
	binary.LittleEndian.PutUint64(data[OffLatest:], 0)
	r, err := NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	list, _ := more(t, r)
	require.Equal(t, []uint64{1}, list)
}

// counting counts the reads, and the heads and the records of chunks that are read.
type counting struct {
	*bytes.Reader
	reads, heads, records int
	furthest              int64 // the largest offset that was read
}

func (c *counting) ReadAt(b []byte, offset int64) (int, error) {
	c.reads++
	c.furthest = max(c.furthest, offset)
	switch {
	case len(b) == ChunkHeadBytes:
		c.heads++
	case offset > HeadBytes+4096:
		c.records++
	}
	return c.Reader.ReadAt(b, offset)
}

// TestLive: of the memory of a program, a reader looks at no chunks but those that were used, and as many more as can have been begun
// before them. It finds chunks after a latest one.
func TestLive(t *testing.T) {
	const chunks = 100
	b := newBuilder(Monotonic)
	b.head.Minor = latestMinor
	for range chunks {
		b.chunk(chunkHead{})
	}
	data := b.bytes()
	file := &counting{Reader: bytes.NewReader(data)}
	r, err := NewLive(file)
	require.NoError(t, err)
	for i := range uint64(2 * chunks) {
		one := newBuilder(Monotonic)
		one.chunk(chunkHead{sequence: i + 1, process: 1, before: i}, newRecord(0, i, "", i))
		copy(data[len(data)-int(chunks-i%chunks)*ChunkBytes:], one.chunks[0])
		file.furthest = 0
		if i%10 == 9 { // another shard has begun its chunk long before, and has stored its number later
			binary.LittleEndian.PutUint64(data[OffLatest:], i/2)
		} else {
			binary.LittleEndian.PutUint64(data[OffLatest:], i+1)
		}
		list, _ := more(t, r)
		require.Equal(t, []uint64{i}, list)
		require.Less(t, file.furthest, r.head.ChunkOffset(i+1+uint64(len(r.shards))), "%d", i)
	}
	require.Zero(t, r.Lost())
}

// TestFull: the heads of full chunks are not read again, until one is reused.
func TestFull(t *testing.T) {
	const chunks = 100
	b := newBuilder(Monotonic)
	for i := range uint64(chunks) {
		b.chunk(chunkHead{sequence: i + 1, process: 1, before: i}, newRecord(0, i, "", i))
	}
	data := b.bytes()
	file := &counting{Reader: bytes.NewReader(data)}
	r, err := NewReader(file)
	require.NoError(t, err)
	list, _ := more(t, r)
	require.Len(t, list, chunks)
	file.heads = 0
	list, _ = more(t, r)
	require.Empty(t, list)
	require.LessOrEqual(t, file.heads, 2, "only that of the last chunk, twice")
	c := newBuilder(Monotonic)
	c.chunk(chunkHead{sequence: chunks + 1, process: 1, before: chunks}, newRecord(0, chunks, "", chunks))
	copy(data[len(data)-chunks*ChunkBytes:], c.chunks[0])
	file.heads = 0
	list, _ = more(t, r)
	require.Equal(t, []uint64{chunks}, list)
	require.LessOrEqual(t, file.heads, 9)
	require.Zero(t, r.Lost())
}

// TestOvertaken: of a chunk that is reused while it is read, at any moment, either all events are seen
// or none, and what is not seen is lost.
func TestOvertaken(t *testing.T) {
	for n := 1; n < 12; n++ {
		for _, snapshot := range []bool{false, true} {
			b := newBuilder(Monotonic)
			b.chunk(chunkHead{sequence: 1, process: 1}, newRecord(0, 1, "", 1), newRecord(0, 2, "", 2))
			b.chunk(chunkHead{sequence: 2, process: 1, before: 2}, newRecord(0, 3, "", 3))
			data := b.bytes()
			file := &swapped{data: data, chunk: int64(len(data)) - 2*ChunkBytes, n: n, swap: func(data []byte) {
				c := newBuilder(Monotonic)
				c.chunk(chunkHead{sequence: 3, process: 1, before: 3}, newRecord(0, 4, "", 4), newRecord(0, 5, "", 5), newRecord(0, 6, "", 6))
				copy(data[len(data)-2*ChunkBytes:], c.chunks[0])
			}}
			var source io.ReaderAt = file
			if snapshot {
				var err error
				source, err = Snapshot(file, int64(len(data)))
				require.NoError(t, err)
			}
			r, err := NewReader(source)
			require.NoError(t, err)
			var list []uint64
			for found, again := more(t, r); again; found, again = more(t, r) {
				list = append(list, found...)
			}
			require.Contains(t, [][]uint64{{1, 2, 3, 4, 5, 6}, {3, 4, 5, 6}, {1, 2, 3}, {3}}, list)
			last := list[len(list)-1]
			require.Equal(t, last, uint64(len(list))+r.Lost())
		}
	}
}

// TestMissing: events are missing where their shard has none: before all others, at the end of a hole in which another shard has events, and at an
// unknown time. What begins after the last hole is known.
func TestMissing(t *testing.T) {
	at := func(ms uint64) Reading { return Reading{ms * 1e6, int64(ms * 1e6), int64(ms*1e6) + 1e18} }
	event := func(ms uint64) []byte { return newRecord(0, ms*1e6, "", ms) }
	read := func(b *builder) (r *Reader, missing [][2]uint64) {
		r, err := NewReader(bytes.NewReader(b.bytes()))
		require.NoError(t, err)
		_, err = r.More()
		require.NoError(t, err)
		for {
			e, err := r.Next()
			if err == io.EOF {
				each, err := NewReader(bytes.NewReader(b.bytes()))
				require.NoError(t, err)
				_, err = each.More()
				require.NoError(t, err)
				require.NoError(t, each.Each(func(uint32) func(*Event) { return nil }, always))
				require.Equal(t, r.Missing(), each.Missing())
				return r, missing
			}
			require.NoError(t, err)
			missing = append(missing, [2]uint64{e.Word(0), e.Missing})
		}
	}
	idle := newBuilder(Monotonic) // shard 1 has written nothing for a while, and shard 0 has been through all other chunks
	idle.chunk(chunkHead{sequence: 2, shard: 1, process: 1, reading: at(10)}, event(10), event(20))
	idle.chunk(chunkHead{sequence: 90, shard: 0, process: 1, before: 800, reading: at(89)}, event(90), event(92))
	idle.chunk(chunkHead{sequence: 91, shard: 1, process: 1, before: 7, reading: at(90)}, event(91), event(95))
	r, missing := read(idle)
	require.Equal(t, [][2]uint64{{10, 0}, {20, 0}, {90, 0}, {91, 805}, {92, 0}, {95, 0}}, missing)
	require.Equal(t, Missing{Between: 805, Until: 91e6 + 1e18}, r.Missing())
	for ms, keeps := range map[time.Duration]bool{10: false, 90: false, 91: false, 92: true, 95: true} {
		require.Equal(t, keeps, r.Keeps(ms*time.Millisecond), ms)
	}

	busy := newBuilder(Monotonic) // shard 1 goes on while shard 0 has lost its last events
	busy.chunk(chunkHead{sequence: 2, shard: 1, process: 1, reading: at(10)}, event(10), event(60))
	busy.chunk(chunkHead{sequence: 3, shard: 0, process: 1, before: 5, reading: at(50)})
	r, missing = read(busy)
	require.Equal(t, [][2]uint64{{10, 0}, {60, 5}}, missing)
	require.Equal(t, Missing{Between: 5, Until: 50e6 + 1e18}, r.Missing())

	full := newBuilder(Monotonic)
	full.chunk(chunkHead{sequence: 90, process: 1, before: 800, reading: at(89)}, event(90))
	r, missing = read(full)
	require.Equal(t, [][2]uint64{{90, 800}}, missing)
	require.Equal(t, Missing{Before: 800, Until: 90e6 + 1e18}, r.Missing())
	require.True(t, r.Keeps(91*time.Millisecond))

	full.head.Dropped = 3
	full.chunk(chunkHead{sequence: 91, process: 1, before: 805, reading: at(99)})
	r, missing = read(full)
	require.Equal(t, [][2]uint64{{90, 800}}, missing)
	require.Equal(t, Missing{Before: 800, After: 4, Unplaced: 3, Until: 90e6 + 1e18}, r.Missing())
	require.False(t, r.Keeps(100*time.Millisecond))
	require.EqualValues(t, 807, r.Lost())
}

// TestDrops: events that had no room are missing between the chunks whose numbers of them differ, as far as the head counts them, and after the
// newest chunk at an unknown time.
func TestDrops(t *testing.T) {
	at := func(ms uint64) Reading { return Reading{ms * 1e6, int64(ms * 1e6), int64(ms*1e6) + 1e18} }
	event := func(ms uint64) []byte { return newRecord(0, ms*1e6, "", ms) }
	b := newBuilder(Monotonic)
	b.head.Minor, b.head.Dropped = Minor, 20
	b.chunk(chunkHead{sequence: 4, shard: 0, process: 1, before: 2, reading: at(50), dropped: 12}, event(60), event(80))
	b.chunk(chunkHead{sequence: 2, shard: 0, process: 1, reading: at(10), dropped: 3}, event(11), event(30))
	b.chunk(chunkHead{sequence: 3, shard: 1, process: 1, reading: at(20), dropped: 3}, event(21), event(70))
	b.chunk(chunkHead{sequence: 5, shard: 1, process: 1, before: 2, reading: at(90), dropped: 15})
	for _, each := range []bool{false, true} {
		r, err := NewReader(bytes.NewReader(b.bytes()))
		require.NoError(t, err)
		_, err = r.More()
		require.NoError(t, err)
		require.Equal(t, Missing{After: 15, Unplaced: 5}, r.Missing())
		require.False(t, r.Keeps(100*time.Millisecond))
		var missing [][2]uint64
		if each {
			require.NoError(t, r.Each(func(uint32) func(*Event) { return nil }, always))
			require.Equal(t, Missing{Before: 3, Between: 9, After: 3, Unplaced: 5, Until: 50e6 + 1e18}, r.Missing())
			continue
		}
		for e, err := r.Next(); err == nil; e, err = r.Next() {
			missing = append(missing, [2]uint64{e.Word(0), e.Missing})
		}
		require.Equal(t, [][2]uint64{{11, 3}, {21, 0}, {30, 0}, {60, 9}, {70, 0}, {80, 0}}, missing)
		require.Equal(t, Missing{Before: 3, Between: 9, After: 3, Unplaced: 5, Until: 50e6 + 1e18}, r.Missing())
		require.EqualValues(t, 20, r.Lost())
	}

	b.head.Dropped = 15
	r, err := NewReader(bytes.NewReader(b.bytes()))
	require.NoError(t, err)
	_, err = r.More()
	require.NoError(t, err)
	require.False(t, r.Keeps(90*time.Millisecond))
	require.True(t, r.Keeps(91*time.Millisecond))

	binary.LittleEndian.PutUint64(b.chunks[1][OffDroppedBefore:], math.MaxUint64) // damaged
	r, err = NewReader(bytes.NewReader(b.bytes()))
	require.NoError(t, err)
	_, err = r.More()
	require.NoError(t, err)
	require.Equal(t, Missing{After: 15}, r.Missing())
}

// TestCut: of a file that lacks the end, what is whole is read, wherever it ends.
func TestCut(t *testing.T) {
	b := newBuilder(Monotonic)
	b.chunk(chunkHead{sequence: 1, process: 1}, newRecord(0, 1, "", 1), newRecord(0, 2, "", 2))
	b.chunk(chunkHead{sequence: 2, process: 1, before: 2}, newRecord(0, 3, "", 3))
	data := b.bytes()
	first := HeadBytes + 4096 + ChunkHeadBytes
	for size, want := range map[int][]uint64{
		len(data): {1, 2, 3}, len(data) - 8: {1, 2, 3}, first + ChunkBytes - 1: {1, 2}, first + 64: {1, 2}, first + 63: {1}, first + 32: {1}, first + 31: nil, first: nil, first - 1: nil, HeadBytes + 4096: nil,
	} {
		r, err := NewPart(bytes.NewReader(data[:size]), int64(size))
		require.NoError(t, err, size)
		list, _ := more(t, r)
		require.Equal(t, want, list, size)
		found, whole := r.Cut()
		require.Equal(t, size < len(data), !r.Keeps(4))
		if size < len(data) {
			require.EqualValues(t, []int{size, len(data)}, []int{int(found), int(whole)})
		}
	}
	for size, want := range map[int]string{
		0: "it has 0 bytes", HeadBytes - 1: "it has 4095 bytes", HeadBytes + 4095: fmt.Sprintf("it has %d of %d bytes", HeadBytes+4095, len(data)),
	} {
		_, err := NewPart(bytes.NewReader(data[:size]), int64(size))
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, ErrCorrupt)
	}
}

// TestTypes: the type of an argument fits its kind, and a name is not longer than one can be.
func TestTypes(t *testing.T) {
	for of := range kind.Kind(len(kind.Rows) + 3) { // and three of a later version
		for size := -128; size < 128; size++ {
			p := &Probe{Provider: strings.Repeat("p", MaxName+1), Name: strings.Repeat("n", 60_000), Args: []Arg{{Name: strings.Repeat("a", 60_000), Type: int8(size), Kind: of}}}
			all, err := DecodeProbes(p.Append(nil))
			known := of.Known(int8(size))
			if !known.Fits(int8(size)) {
				require.ErrorIs(t, err, ErrCorrupt)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, known, all[0].Args[0].Kind)
			require.Equal(t, []int{MaxName, MaxName, MaxName}, []int{len(all[0].Provider), len(all[0].Name), len(all[0].Args[0].Name)})
		}
	}
}

// TestRefused: what no writer can have written is an error.
func TestRefused(t *testing.T) {
	valid := func() *builder {
		b := newBuilder(Monotonic)
		b.chunk(chunkHead{sequence: 1, process: 1}, newRecord(0, 1, "", 1))
		return b
	}
	le := binary.LittleEndian
	for name, change := range map[string]func(b []byte) []byte{
		"empty":            func([]byte) []byte { return nil },
		"no magic":         func(b []byte) []byte { b[0] = 'x'; return b },
		"cut":              func(b []byte) []byte { return b[:HeadBytes+4096] },
		"clock":            func(b []byte) []byte { b[offClock] = 9; return b },
		"2^63 chunks":      func(b []byte) []byte { le.PutUint64(b[OffChunks:], 1<<63); return b },
		"2^18 chunks":      func(b []byte) []byte { le.PutUint64(b[OffChunks:], 1<<18); return b },
		"table":            func(b []byte) []byte { le.PutUint64(b[offTableBytes:], 1<<63); return b },
		"table used":       func(b []byte) []byte { le.PutUint64(b[OffTableUsed:], 4096+8); return b },
		"shards":           func(b []byte) []byte { le.PutUint32(b[offShards:], 1<<31); return b },
		"executable":       func(b []byte) []byte { le.PutUint16(b[offExecutable:], 65535); return b },
		"entry's size":     func(b []byte) []byte { b[HeadBytes] = 0; return b },
		"entry's name":     func(b []byte) []byte { le.PutUint16(b[HeadBytes+8:], 65535); return b },
		"entry's kind":     func(b []byte) []byte { b[HeadBytes+probeHeadBytes+1] = 0; return b },
		"entry's args":     func(b []byte) []byte { b[HeadBytes+12] = 255; return b },
		"shard":            func(b []byte) []byte { le.PutUint32(b[HeadBytes+4096+OffShard:], 2); return b },
		"committed":        func(b []byte) []byte { le.PutUint64(b[HeadBytes+4096+OffCommitted:], 1<<63); return b },
		"record's size":    func(b []byte) []byte { b[HeadBytes+4096+ChunkHeadBytes] = 0; return b },
		"record too large": func(b []byte) []byte { b[HeadBytes+4096+ChunkHeadBytes+3] = 0x7f; return b },
		"record's probe":   func(b []byte) []byte { b[HeadBytes+4096+ChunkHeadBytes+4] = 2; return b },
		"record's text": func(b []byte) []byte {
			b[HeadBytes+4096+ChunkHeadBytes+4] = 1
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Error(t, drain(t, bytes.NewReader(change(valid().bytes()))))
		})
	}
	short := valid()
	short.chunk(chunkHead{sequence: 2, process: 1, before: 1}, newRecord(0, 2, ""))
	require.ErrorIs(t, drain(t, bytes.NewReader(short.bytes())), ErrCorrupt)
	long := valid()
	long.chunk(chunkHead{sequence: 2, process: 1, before: 1}, newRecord(1, 2, "text", 1000, 1))
	require.ErrorIs(t, drain(t, bytes.NewReader(long.bytes())), ErrCorrupt)
	twice := valid()
	twice.chunk(chunkHead{sequence: 2, process: 1}, newRecord(0, 1, "", 1))
	require.ErrorIs(t, drain(t, bytes.NewReader(twice.bytes())), ErrCorrupt)
}

// drain reads all of a recording, by Next and by Each, which have the same events or an error.
func drain(t testing.TB, file io.ReaderAt) error {
	t.Helper()
	r, err := NewReader(file)
	if err != nil {
		return err
	}
	each, err := NewReader(file)
	require.NoError(t, err)
	if _, err := r.More(); err != nil {
		return err
	}
	_, err = each.More()
	require.NoError(t, err)
	var events, others []string
	for err == nil {
		var e *Event
		if e, err = r.Next(); err == nil {
			events = append(events, describe(e))
		}
	}
	describeAll := func(uint32) func(*Event) {
		return func(e *Event) { others = append(others, describe(e)) }
	}
	eachErr := each.Each(describeAll, always)
	if err != io.EOF {
		require.ErrorIs(t, eachErr, ErrCorrupt)
		return err
	}
	require.NoError(t, eachErr)
	require.ElementsMatch(t, events, others)
	require.Equal(t, r.Lost(), each.Lost())
	return nil
}

func always() bool { return true }

// describe returns all of an event but its times, to which Next may add a little.
func describe(e *Event) string {
	var args []any
	for i, a := range e.Probe.Args {
		if a.Kind == kind.String {
			args = append(args, string(e.Text(i)))
		}
		args = append(args, e.Word(i))
	}
	return fmt.Sprint(e.Number, e.Probe.Name, args, e.Ticks, e.PID, e.TID, e.Goroutine, e.Executable)
}

// TestEach: Each has the events of Next with their times, asks once for each probe, and goes on after it was ended.
func TestEach(t *testing.T) {
	const second = uint64(time.Second)
	at := func(s uint64) Reading { return Reading{2 * s * second, int64(s * second), int64(s*second) + 1e18} }
	b := newBuilder(Counter)
	b.head.Executable = "/bin/app"
	b.chunk(chunkHead{sequence: 1, process: 7, reading: at(1)}, newRecord(0, 4*second, "", 1), newRecord(maxProbe+1, 5*second, "", 2),
		newRecord(1, 6*second, "text", 4, 0x3f000000), newRecord(ReadingRecord, 8*second, "", 5*second, second), newRecord(0, 10*second, "", 3))
	b.chunk(chunkHead{sequence: 2, shard: 1, reading: at(2)}, newRecord(0, 5*second, "", 4), newRecord(0, 9*second, "", 5))
	b.chunk(chunkHead{sequence: 3, process: 7, before: 5, reading: at(6)}, newRecord(0, 13*second, "", 6))
	require.NoError(t, drain(t, bytes.NewReader(b.bytes())))
	with := func(e *Event) string { return fmt.Sprint(describe(e), e.Monotonic, e.Realtime) }
	r, err := NewReader(bytes.NewReader(b.bytes()))
	require.NoError(t, err)
	_, err = r.More()
	require.NoError(t, err)
	want := map[string]bool{}
	for range 6 {
		e, err := r.Next()
		require.NoError(t, err)
		want[with(e)] = true
	}
	each, err := NewReader(bytes.NewReader(b.bytes()))
	require.NoError(t, err)
	asked, got, looks := map[uint32]int{}, map[string]bool{}, 0
	of := func(number uint32) func(*Event) {
		asked[number]++
		return func(e *Event) { got[with(e)] = true }
	}
	for more := true; more; looks++ {
		more, err = each.More()
		require.NoError(t, err)
		once := true
		require.NoError(t, each.Each(of, func() bool { once = !once; return !once }))
	}
	require.Greater(t, looks, 3)
	require.Equal(t, want, got)
	require.Equal(t, map[uint32]int{0: 1, 1: 1}, asked)
	require.Equal(t, r.Missing().Between, each.Missing().Between)
	require.EqualValues(t, 2, each.Lost())

	n := 0
	few, err := NewReader(bytes.NewReader(b.bytes()))
	require.NoError(t, err)
	_, err = few.More()
	require.NoError(t, err)
	require.NoError(t, few.Each(func(number uint32) func(*Event) {
		if number == 0 {
			return nil
		}
		return func(*Event) { n++ }
	}, always))
	require.Equal(t, 1, n)
	passed, known := few.Position()
	require.EqualValues(t, 8, passed)
	require.False(t, known)
}

// FuzzReader: no recording makes the reader fail otherwise than by an error, take more memory than its
// size allows, or read forever.
func FuzzReader(f *testing.F) {
	b := newBuilder(Counter)
	b.chunk(chunkHead{sequence: 1, process: 1}, newRecord(0, 1, "", 1), newRecord(1, 2, "text", 4, 5))
	b.chunk(chunkHead{sequence: 2, shard: 1}, newRecord(ReadingRecord, 3, "", 1, 2), newRecord(0, 4, "", 1))
	whole := b.bytes()
	// The chunks are mostly zeros: what is changed is given as places and bytes.
	f.Add([]byte{0, 0, 1})
	f.Fuzz(func(t *testing.T, changes []byte) {
		data := bytes.Clone(whole)
		for len(changes) >= 3 {
			at := int(changes[0])<<8 | int(changes[1])
			// One half of the places are in the head and the table, the others at the chunks' beginnings.
			switch {
			case at < 1<<15:
				at %= HeadBytes + 256
			case at < 3<<14:
				at = HeadBytes + 4096 + at%256
			default:
				at = HeadBytes + 4096 + ChunkBytes + at%256
			}
			data[at] = changes[2]
			changes = changes[3:]
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_ = drain(t, bytes.NewReader(data))
		copied, err := Snapshot(bytes.NewReader(data), int64(len(data)))
		if err == nil {
			_ = drain(t, copied)
		}
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20))
	})
}
