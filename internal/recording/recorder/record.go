package recorder

import (
	"encoding/binary"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/call"
	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/words"
)

// record is a record to be appended, as the assembly reads it. It has no padding, and code that makes a record
// sets every field, so that the compiler does not clear it first.
type record struct {
	head  uint64         // the size, and above it the probe's number
	n     uint64         // the number of words
	words unsafe.Pointer // points to the words, or to pointers to numbers
	types unsafe.Pointer // points to the types of the numbers, as in recording.Arg, or is nil
	count uint64         // the number of texts
	texts *string
	done  uint32 // 1 if the record was appended or lost; inShared plus the slot's index while the assembly is in a shared slot
	fault uint32 // 1 if debug.SetPanicOnFault was set before the assembly set it
}

// Append appends a record of a probe with these arguments. The word of a string is its length, and
// the strings are in texts. Append does not allocate, and it does not wait for other fires.
func (w *Writer) Append(number uint32, list []uint64, texts []string) {
	// A composite literal would be copied in larger pieces than it was stored, which makes a processor
	// wait.
	var r record
	r.head = headOf(number, list, texts)
	r.n, r.words, r.types = uint64(len(list)), unsafe.Pointer(unsafe.SliceData(list)), nil
	r.count, r.texts, r.done, r.fault = uint64(len(texts)), unsafe.SliceData(texts), 0, 0
	defer w.check(&r)
	if now, ok := w.now(); !ok || !write(&w.at, &r, now) {
		w.appendSlowly(&r)
	}
	r.done = 1
}

// headOf returns the head of a record.
func headOf(number uint32, list []uint64, texts []string) uint64 {
	head := uint64(number)<<32 + recording.RecordHeadBytes + 8*uint64(len(list))
	for _, t := range texts {
		head += paddedLength(t)
	}
	return head
}

// now returns the time for the assembly, or 0 if the assembly reads the counter. It returns false if there is no assembly.
func (w *Writer) now() (now uint64, ok bool) {
	if w.hasSlots {
		return 0, true
	}
	if w.inAssembly {
		return uint64(clock.Now()), true
	}
	return 0, false
}

// AppendForeign appends an event of another process: its time by CLOCK_MONOTONIC, in nanoseconds, and its
// process and thread.
func (w *Writer) AppendForeign(number uint32, at uint64, pid, tid uint32, list []uint64, texts []string) {
	var r record
	r.head = headOf(number, list, texts)
	r.n, r.words, r.types = uint64(len(list)), unsafe.Pointer(unsafe.SliceData(list)), nil
	r.count, r.texts, r.done, r.fault = uint64(len(texts)), unsafe.SliceData(texts), 0, 0
	defer w.check(&r)
	defer debug.SetPanicOnFault(r.panicOnFault())
	s := &w.shared[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !w.open():
	case s.next+r.size() > s.end && !w.nextChunk(s.slot, s.shard):
		w.Drop()
	default:
		w.put(s.slot, &r, at, uint64(pid)<<32|uint64(tid))
	}
	r.done = 1
}

// paddedLength returns the number of bytes that a text takes in a record.
func paddedLength(text string) uint64 { return (uint64(len(text)) + 8) &^ 7 }

// panicOnFault calls debug.SetPanicOnFault, and returns the setting to restore.
func (r *record) panicOnFault() (old bool) {
	if old = debug.SetPanicOnFault(true); old {
		r.fault = 1
	}
	return old
}

// check ends the recording if its memory has failed, because the file was truncated or the file system
// has lost its device.
func (w *Writer) check(r *record) {
	if r.done != 1 {
		if r.done >= inShared { // the arguments could not be read, but the recording is intact
			atomic.StoreUint64(&w.table.shared[r.done-inShared].key, 0)
		}
		debug.SetPanicOnFault(r.fault != 0)
		w.ended(recover())
	}
}

// ended ends the recording after a fault in its memory, and re-raises every other panic.
func (w *Writer) ended(reason any) {
	if reason == nil {
		return
	}
	fault, ok := reason.(interface{ Addr() uintptr })
	start := uintptr(unsafe.Pointer(unsafe.SliceData(w.memory)))
	if !ok || fault.Addr() < start || fault.Addr() >= start+uintptr(len(w.memory)) {
		panic(reason)
	}
	w.Fail()
}

// appendSlowly appends a record for which the assembly found no slot, no room or no Reading.
//
//go:noinline
func (w *Writer) appendSlowly(r *record) {
	if !w.open() {
		return
	}
	defer debug.SetPanicOnFault(r.panicOnFault())
	if !w.hasSlots || !w.recordLocked(r) {
		w.recordShared(r)
	}
}

// recordLocked appends a record to a slot that the calling thread has or can have, and reports whether it did so.
func (w *Writer) recordLocked(r *record) bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	i, ok := w.ownSlot()
	return ok && w.recordInSlot(i, r)
}

func (r *record) size() uint64 { return uint64(uint32(r.head)) }

// ownSlot returns the number of the slot that the calling thread, which is locked, has or can
// have.
func (w *Writer) ownSlot() (i uint64, ok bool) {
	m := uint64(thread())
	first := m >> shiftM & w.table.mask
	free := false
	for j := first; j < min(first+window, w.table.mask+1); j++ {
		switch atomic.LoadUint64(&w.table.slots[j].key) {
		case m:
			return j, true
		case 0:
			if !free {
				i, free = j, true
			}
		}
	}
	if !free {
		w.crowded()
	}
	return i, free
}

// recordInSlot appends a record to a slot of the calling thread, which is locked, and makes the
// slot its own if it is free. It reports whether it appended the record.
func (w *Writer) recordInSlot(i uint64, r *record) bool {
	lock := &w.locks[i]
	if !lock.TryLock() {
		return false // the writer is being closed, or another thread takes the slot
	}
	defer lock.Unlock()
	s, m := &w.table.slots[i], uint64(thread())
	if key := atomic.LoadUint64(&s.key); !w.open() || key != 0 && key != m {
		return false
	}
	if !w.appendTo(s, i, r) {
		return false
	}
	atomic.StoreUint64(&s.key, m) // last: from now on the assembly writes to the slot
	return true
}

// recordShared appends a record to a shard with a lock.
func (w *Writer) recordShared(r *record) {
	// As in the assembly, so that a goroutine has one shard in both.
	first := uint64(call.Goroutine()) * 0x9e3779b97f4a7c15 >> 32 * uint64(len(w.shared)) >> 32
	for i := range uint64(len(w.shared)) {
		s := &w.shared[(first+i)%uint64(len(w.shared))]
		if w.tryLock(s) {
			w.appendLocked(s, r)
			return
		}
	}
	w.Drop()
}

func (w *Writer) appendLocked(s *sharedShard, r *record) {
	defer w.unlock(s) // even after a fault
	if w.open() && !w.appendTo(s.slot, s.shard, r) {
		w.Drop()
	}
}

// appendTo appends a record to a shard whose lock is held. It reports false if there is no chunk
// for it.
func (w *Writer) appendTo(s *slot, shard uint64, r *record) bool {
	if s.next+r.size() > s.end && !w.nextChunk(s, shard) {
		return false
	}
	now := w.clock.now()
	if w.table.counter != 0 && now-s.read > s.interval {
		if s.next+readingRecordBytes+r.size() > s.end && !w.nextChunk(s, shard) {
			return false
		}
		if now = w.clock.now(); now-s.read > s.interval { // the chunk is not new
			w.appendReading(s)
			now = w.clock.now()
		}
	}
	w.put(s, r, now, goroutine())
	if w.table.counter == 0 {
		s.read = now
	}
	return true
}

// put appends a record to a shard whose lock is held, and that has room for it. origin identifies the goroutine or thread that has fired.
func (w *Writer) put(s *slot, r *record, now, origin uint64) {
	at := w.offset(s.next)
	le := binary.LittleEndian
	b := w.memory[at:][:r.size()]
	le.PutUint64(b, r.head)
	le.PutUint64(b[8:], now)
	le.PutUint64(b[16:], origin)
	b = b[recording.RecordHeadBytes:]
	// SAFETY: Append and AppendNumbers guarantee that there are r.n of each.
	if r.types == nil {
		for _, word := range unsafe.Slice((*uint64)(r.words), r.n) {
			le.PutUint64(b, word)
			b = b[8:]
		}
	} else {
		types := unsafe.Slice((*int8)(r.types), r.n)
		for i, number := range unsafe.Slice((*unsafe.Pointer)(r.words), r.n) {
			le.PutUint64(b, words.Load(types[i], number))
			b = b[8:]
		}
	}
	for _, t := range unsafe.Slice(r.texts, r.count) {
		clear(b[copy(b, t):paddedLength(t)])
		b = b[paddedLength(t):]
	}
	s.events++
	w.commit(s, r.size())
}

// commit makes the record that was written to a shard readable.
func (w *Writer) commit(s *slot, size uint64) {
	s.next += size
	w.store64(w.offset(s.committed), s.next-s.base)
}

// offset returns the offset of an address in the memory.
func (w *Writer) offset(address uint64) int64 {
	return int64(address - uint64(uintptr(unsafe.Pointer(unsafe.SliceData(w.memory)))))
}

const readingRecordBytes = recording.RecordHeadBytes + 16

// appendReading appends a Reading to a shard that has room for it. The interval between readings grows up
// to a second, so that a short recording has enough of them too.
func (w *Writer) appendReading(s *slot) {
	r := w.clock.reading()
	b := w.memory[w.offset(s.next):][:readingRecordBytes]
	le := binary.LittleEndian
	le.PutUint32(b, readingRecordBytes)
	le.PutUint32(b[4:], recording.ReadingRecord)
	le.PutUint64(b[8:], r.Ticks)
	le.PutUint64(b[16:], 0)
	le.PutUint64(b[24:], uint64(r.Monotonic))
	le.PutUint64(b[32:], uint64(r.Realtime))
	w.commit(s, readingRecordBytes)
	s.read, s.interval = r.Ticks, min(2*s.interval, w.clock.second)
}
