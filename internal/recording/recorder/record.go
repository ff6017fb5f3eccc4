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
)

var le = binary.LittleEndian

// fire is the state of one fire that is appended to memory that can fail, or with a time that is
// passed. The assembly sets its fields. Code that makes a fire sets every field, so that the
// compiler does not clear it first.
type fire struct {
	now   uint64 // the time, if it is not the processor's counter
	done  uint32 // 1 if the record was appended or lost
	fault uint32 // 1 if debug.SetPanicOnFault was set before
}

// append appends a record. The arguments' variables do not change meanwhile. It does not allocate,
// and it does not wait for other fires.
func (w *Writer) append(s *shape, args unsafe.Pointer) {
	var f fire
	f.now, f.done, f.fault = 0, 0, 0
	defer w.check(&f)
	owns := w.hasSlots
	if w.inAssembly && !w.clock.useCounter {
		now, real := clock.Read()
		f.now, owns = uint64(now), owns && real
	}
	if !w.inAssembly || owns != w.hasSlots || !write(s, args, &f) {
		w.appendSlowly(&record{s, args, s.headOf(args)}, &f, owns)
	}
	f.done = 1
}

// record is a record that is appended in Go.
type record struct {
	*shape
	args unsafe.Pointer
	head uint64 // the size, and above it the probe's number
}

// panicOnFault calls debug.SetPanicOnFault, and returns the setting to restore.
func (f *fire) panicOnFault() (old bool) {
	if old = debug.SetPanicOnFault(true); old {
		f.fault = 1
	}
	return old
}

// check ends the recording if its memory has failed.
func (w *Writer) check(f *fire) {
	if f.done != 1 {
		w.faulted(f, recover())
	}
}

// faulted ends the recording if the reason of a panic is that its memory has failed, because the
// file was truncated or the file system has lost its device.
func (w *Writer) faulted(f *fire, reason any) {
	debug.SetPanicOnFault(f.fault != 0)
	w.ended(reason)
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

// appendSlowly appends a record for which the assembly found no slot, no room or no Reading. owns
// reports whether the thread may own a slot.
//
//go:noinline
func (w *Writer) appendSlowly(r *record, f *fire, owns bool) {
	if !w.open() {
		return
	}
	defer debug.SetPanicOnFault(f.panicOnFault())
	if !owns || !w.recordLocked(r) {
		w.recordShared(r)
	}
}

// recordLocked appends a record to a slot that the calling thread has or can have, and reports
// whether it did so.
func (w *Writer) recordLocked(r *record) bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	i, ok := w.ownSlot()
	return ok && w.recordInSlot(i, r)
}

// sizeOf returns the size that a record's head has.
func sizeOf(head uint64) uint64 { return uint64(uint32(head)) }

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
	key := goroutine() // as in the assembly, so that a goroutine has one shard in both
	if key == 0 {
		key = uint64(call.Goroutine())
	}
	first := key * 0x9e3779b97f4a7c15 >> 32 * uint64(len(w.shared)) >> 32
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
	if s.next+sizeOf(r.head) > s.end && !w.nextChunk(s, shard, w.process) {
		return false
	}
	now := w.clock.now()
	if w.table.counter != 0 && now-s.read > s.interval {
		if s.next+readingRecordBytes+sizeOf(r.head) > s.end && !w.nextChunk(s, shard, w.process) {
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

// put appends a record to a shard whose lock is held, and that has room for it. origin identifies
// the goroutine that has fired.
func (w *Writer) put(s *slot, r *record, now, origin uint64) {
	r.store(w.begin(s, r.head, now, origin), r.args)
	w.end(s, r.head)
}

// begin stores the head of a record, and returns the memory of the rest. origin identifies the
// goroutine or thread that has fired.
func (w *Writer) begin(s *slot, head, now, origin uint64) (rest []byte) {
	b := w.memory[w.offset(s.next):][:sizeOf(head)]
	le.PutUint64(b, head)
	le.PutUint64(b[8:], now)
	le.PutUint64(b[16:], origin)
	return b[recording.RecordHeadBytes:]
}

// end makes the record that was begun an event.
func (w *Writer) end(s *slot, head uint64) {
	s.events++
	w.commit(s, sizeOf(head))
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

// appendReading appends a Reading to a shard that has room for it. The interval between readings
// grows up to a second, so that a short recording has enough of them too.
func (w *Writer) appendReading(s *slot) {
	r := w.clock.reading()
	b := w.memory[w.offset(s.next):][:readingRecordBytes]
	le.PutUint32(b, readingRecordBytes)
	le.PutUint32(b[4:], recording.ReadingRecord)
	le.PutUint64(b[8:], r.Ticks)
	le.PutUint64(b[16:], 0)
	le.PutUint64(b[24:], uint64(r.Monotonic))
	le.PutUint64(b[32:], uint64(r.Realtime))
	w.commit(s, readingRecordBytes)
	s.read, s.interval = r.Ticks, min(2*s.interval, w.clock.second)
}
