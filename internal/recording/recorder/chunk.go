package recorder

import (
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/barrier"
)

// nextChunk gives a shard, whose lock is held, the oldest chunk that no shard writes to, and
// retires the shard's present chunk. It reports false if there is no chunk.
//
// The shard's chunk is retired when the next one is readable. So a reader always finds the last
// chunk of a shard, which has the number of the shard's earlier events. process is the PID of all
// events in the chunk, or 0 if each record has it.
func (w *Writer) nextChunk(s *slot, shard uint64, process uint32) bool {
	chunk, sequence, ok := w.oldest()
	if !ok {
		return false
	}
	at := w.head.ChunkOffset(chunk)
	w.store64(at+recording.OffSequence, 0)
	// A reader that finds any of the following stores finds another sequence number too.
	barrier.Store()
	reading := w.clock.reading()
	w.store32(at+recording.OffShard, uint32(shard))
	w.store32(at+recording.OffProcess, process)
	w.store64(at+recording.OffBefore, s.events)
	w.store64(at+recording.OffReading, reading.Ticks)
	w.store64(at+recording.OffReading+8, uint64(reading.Monotonic))
	w.store64(at+recording.OffReading+16, uint64(reading.Realtime))
	w.store64(at+recording.OffCommitted, 0)
	w.store64(at+recording.OffDroppedBefore, w.dropped.Load())
	w.store64(at+recording.OffSequence, sequence)
	w.store64(recording.OffLatest, sequence)
	if s.end != 0 {
		w.retire(s)
	}
	start := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(w.memory)))) + uint64(at)
	s.committed = start + recording.OffCommitted
	s.base = start + recording.ChunkHeadBytes
	s.next, s.end = s.base, start+recording.ChunkBytes
	s.read = reading.Ticks
	s.interval = max(s.interval, w.clock.second/1024)
	return true
}

// oldest takes the oldest chunk that no shard writes to.
func (w *Writer) oldest() (chunk, sequence uint64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.open() || w.retired.n == 0 {
		return 0, 0, false
	}
	w.sequence++
	return w.retired.take(), w.sequence, true
}

// retire adds a shard's chunk to the queue, so that others can have it when the older
// ones are used up.
func (w *Writer) retire(s *slot) {
	first := recording.HeadBytes + int64(w.head.TableBytes)
	chunk := uint64(w.offset(s.end)-first)/recording.ChunkBytes - 1
	w.mu.Lock()
	defer w.mu.Unlock()
	w.retired.add(chunk)
}

// queue holds the chunks that no shard writes to, the oldest first. It has room for all.
type queue struct {
	ring     []uint64
	first, n int
}

func (q *queue) add(chunk uint64) {
	q.ring[(q.first+q.n)%len(q.ring)] = chunk
	q.n++
}

func (q *queue) take() uint64 {
	chunk := q.ring[q.first]
	q.first, q.n = (q.first+1)%len(q.ring), q.n-1
	return chunk
}
