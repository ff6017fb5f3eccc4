package recorder

import (
	"runtime/debug"

	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// AppendForeign appends an event of another process: its time by CLOCK_MONOTONIC, in nanoseconds,
// and its process and thread. The word of a string is its length, and the strings are in texts.
func (w *Writer) AppendForeign(
	number uint32, at uint64, pid, tid uint32, list []uint64, texts []string,
) {
	w.appendForeign(&w.shared[0], 0, number, at, uint64(pid)<<32|uint64(tid), list, texts)
}

func (w *Writer) appendForeign(
	s *sharedShard, process, number uint32, at, origin uint64, list []uint64, texts []string,
) {
	head := uint64(number)<<32 + recording.RecordHeadBytes + 8*uint64(len(list))
	for _, t := range texts {
		head += paddedLength(t)
	}
	var f fire
	defer w.check(&f)
	defer debug.SetPanicOnFault(f.panicOnFault())
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !w.open():
	case s.next+sizeOf(head) > s.end && !w.nextChunk(s.slot, s.shard, process):
		w.Drop()
	default:
		b := w.begin(s.slot, head, at, origin)
		for _, word := range list {
			le.PutUint64(b, word)
			b = b[8:]
		}
		for _, t := range texts {
			b = storeText(b, t)
		}
		w.end(s.slot, head)
	}
	f.done = 1
}

// Shard is a shard of a Foreign recording for the events of one process, in the order of their
// times.
type Shard struct {
	w       *Writer
	shared  *sharedShard
	process uint32
}

// Shard returns a shard for the events of the process with a PID. If the PID is 0, each event has
// its own, and its thread. It returns nil if other processes have all shards.
func (w *Writer) Shard(pid uint32) *Shard {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := len(w.free) - 1
	if last < 0 {
		return nil
	}
	s := &Shard{w, w.free[last], pid}
	w.free = w.free[:last]
	return s
}

// Release lets another process have the shard. The recording keeps its events.
func (s *Shard) Release() {
	s.shared.mu.Lock()
	s.shared.next = s.shared.end // the next event begins a chunk, with another PID
	s.shared.mu.Unlock()
	s.w.mu.Lock()
	s.w.free = append(s.w.free, s.shared)
	s.w.mu.Unlock()
}

// Append appends an event: its time by CLOCK_MONOTONIC, in nanoseconds, and its origin as in a
// record.
func (s *Shard) Append(number uint32, at, origin uint64, list []uint64, texts []string) {
	s.w.appendForeign(s.shared, s.process, number, at, origin, list, texts)
}

// Fill passes room of the size that the shard's chunk has left to fill, which writes the records of
// events to its beginning and returns their size and number. They become readable together. Fill
// does not begin a chunk: Append does.
func (s *Shard) Fill(fill func(room []byte) (size int, events uint64)) {
	w, at := s.w, s.shared
	at.mu.Lock()
	defer at.mu.Unlock()
	if !w.open() || at.next == at.end {
		return
	}
	w.guard(func() {
		offset := w.offset(at.next)
		room := w.memory[offset:w.offset(at.end)]
		if w.file == nil {
			size, events := fill(room)
			w.commitSome(at.slot, size, events)
			return
		}
		w.filling.Lock()
		defer w.filling.Unlock()
		if w.room == nil {
			w.room = make([]byte, recording.ChunkBytes)
		}
		size, events := fill(w.room[:len(room)])
		if records := w.room[:size]; size < filePiece {
			copy(room, records)
		} else if _, err := w.file.WriteAt(records, offset); err != nil {
			w.Fail()
			return
		}
		w.commitSome(at.slot, size, events)
	})
}

// filePiece is the size of records from which on writing to the file costs less than storing to the
// memory.
const filePiece = 4096

// commitSome makes the records of events readable.
func (w *Writer) commitSome(s *slot, size int, events uint64) {
	s.events += events
	w.commit(s, uint64(size))
}
