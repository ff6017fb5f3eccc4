package recorder

import (
	"encoding/binary"
	"io"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/barrier"
	"github.com/go-stapsdt/stapsdt/internal/world"
)

// The table of probes takes a 16th of the memory, within these limits.
const (
	minTable = 60 << 10
	maxTable = 1020 << 10
)

// Options set the head that a Writer writes, and its clock.
type Options struct {
	Head recording.Head // sizes and readings are not used
	// Counter demands the processor's counter, for benchmarks: a test has the clock.
	Counter bool
	// CannotFail means that no store to the memory can fault, because it is no file's, or
	// nobody can truncate the file. (If it was swapped out and cannot be read again, the
	// program ends, as it does for its own memory.)
	CannotFail bool
	// Foreign means that AppendForeign and Shards append the events of other processes. The clock
	// is CLOCK_MONOTONIC.
	Foreign bool
	// File, if it is not nil, is the file of the memory. Shard.Fill writes to it, because the first
	// store to each page of the memory costs a fault.
	File io.WriterAt
}

// Writer appends events to a recording in memory.
//
// A store to the memory requires that the writer was found open, and Close waits for the store. In
// Go, the store is under a lock that Close takes, and the writer was found open under this lock:
//
//	locks[i]      a record or a chunk of the slot i
//	shared[i].mu  a record or a chunk of a shared shard
//	storing       the number of dropped events
//	mu            the table of probes
//
// In assembly, the store is under no lock, but no goroutine is preempted between the look at the
// pointer to the table and the store. Close therefore stops the world once. In a forked child the
// writer is not open, and no slot has an owner.
type Writer struct {
	// at points to the table while the writer is open. It is accessed atomically, and read by
	// the assembly.
	at    unsafe.Pointer
	table *table
	// locks guard the slots' fields against Close. A thread that owns a slot may write to
	// it in assembly without its lock.
	locks  [slots]sync.Mutex
	shared []sharedShard
	clock  clockReader
	// inAssembly means that records are appended in assembly, and hasSlots that threads can own
	// slots.
	inAssembly, hasSlots bool
	cannotFail           bool // as in Options
	file                 io.WriterAt
	memory               []byte
	head                 recording.Head
	// process is the PID in the heads of chunks, or 0 if each record has it.
	process uint32

	// mu guards the following fields. While it is held, only the table of probes is touched in the
	// recording's memory.
	mu       sync.Mutex
	retired  queue
	sequence uint64
	probes   map[string]uint32 // the numbers of the probes in the table, by their entries
	free     []*sharedShard    // that a Shard can have

	dropped atomic.Uint64
	stored  atomic.Uint64 // the value of dropped in the memory
	storing sync.Mutex    // held while the value is stored

	room    []byte // of a chunk, for Fill
	filling sync.Mutex

	failed     atomic.Bool
	tookBack   atomic.Int64 // the time of the last takeBack, by CLOCK_MONOTONIC
	takingBack sync.Mutex
}

// sharedShard is a shard for goroutines whose thread has no slot. In Go, a fire in it holds mu and,
// if others are in assembly, has then set the key.
type sharedShard struct {
	mu sync.Mutex
	*slot
	shard uint64
	_     [40]byte // the next shard is in another cache line
}

// tryLock locks the shard for a fire, unless another fire is in it, and reports whether it did so.
func (w *Writer) tryLock(s *sharedShard) bool {
	if !s.mu.TryLock() {
		return false
	}
	if w.inAssembly && !atomic.CompareAndSwapUint64(&s.key, 0, sharing) {
		s.mu.Unlock()
		return false
	}
	return true
}

func (w *Writer) unlock(s *sharedShard) {
	if w.inAssembly {
		atomic.StoreUint64(&s.key, 0)
	}
	s.mu.Unlock()
}

// Chunks returns the number of chunks that hold this number of bytes of records, at least 4.
func Chunks(bytes int64) uint64 {
	return (uint64(max(bytes, recording.MinBytes))-1)/recording.ChunkBytes + 1
}

// Size returns the size of a recording with this number of chunks.
func Size(chunks uint64) int64 {
	return recording.HeadBytes + int64(tableSize(chunks)) + int64(chunks)*recording.ChunkBytes
}

// tableSize returns the size of the table of probes beside this number of chunks.
func tableSize(chunks uint64) uint64 {
	return min(max(chunks*recording.ChunkBytes/16, minTable), maxTable) &^ 4095
}

// New formats memory of the Size of a number of chunks, which begins at a multiple of 8 bytes, as
// an empty recording, and returns its writer.
func New(memory []byte, chunks uint64, o Options) *Writer {
	Prepare()
	w := &Writer{memory: memory, cannotFail: o.CannotFail, file: o.File, head: o.Head}
	w.probes = map[string]uint32{}
	if w.process = w.head.PID; o.Foreign {
		w.process = 0
	}
	shards := max(chunks/2, 2)
	owned := uint64(0)
	w.clock = newClock(hasAssembly && !o.Foreign && (o.Counter || counterIsTrusted()))
	table, free := newTable()
	w.table = table
	w.inAssembly = hasAssembly && usesG && !o.Foreign
	if w.hasSlots = w.inAssembly && w.clock.orders(); w.hasSlots {
		for owned = 1; 2*owned <= min(slots, shards/2-1); owned *= 2 {
		}
	}
	w.shared = make([]sharedShard, min(shards-owned, commons))
	for i := range w.shared {
		w.shared[i].slot, w.shared[i].shard = &table.shared[i], owned+uint64(i)
	}
	if w.inAssembly {
		table.common = uint64(len(w.shared))
	}
	for i := len(w.shared) - 1; o.Foreign && i > 0; i-- {
		w.free = append(w.free, &w.shared[i])
	}
	for i := owned; i < uint64(len(table.slots)); i++ {
		table.slots[i].key = reserved
	}
	h := &w.head
	h.Major, h.Minor = recording.Major, recording.Minor
	h.Clock = w.clock.kind()
	h.TableBytes, h.Chunks = tableSize(chunks), chunks
	h.Shards = uint32(owned) + uint32(len(w.shared))
	h.Reading = w.clock.reading()
	w.retired.ring = make([]uint64, chunks)
	for i := range chunks {
		w.retired.add(i)
	}
	w.table.alive = 1
	if w.table.mask = owned - 1; owned == 0 {
		w.table.mask = 0
	}
	if h.Clock == recording.Counter {
		w.table.counter = 1
	}
	runtime.AddCleanup(w, func(free func()) { free() }, free)
	w.guard(func() { copy(memory, h.Encode()) })
	if w.failed.Load() {
		return w
	}
	atomic.StorePointer(&w.at, unsafe.Pointer(w.table))
	if !o.Foreign {
		w.debug()
	}
	return w
}

// Prepare does once what New may need a new thread for: if the process may have no more, the
// runtime ends it. So Prepare is called when a program starts, and not when it fires, or when a
// watcher comes. The runtime itself starts a thread when a goroutine locks its own for the first
// time.
func Prepare() {
	runtime.LockOSThread()
	runtime.UnlockOSThread()
	checkG()
}

// Bytes returns the size of the recording.
func (w *Writer) Bytes() int64 { return w.head.Size() }

// Now returns the time by the recording's clock.
func (w *Writer) Now() uint64 { return w.clock.now() }

// Dropped returns the number of events that found no shard or no number.
func (w *Writer) Dropped() uint64 { return w.dropped.Load() }

// Drop counts an event that is lost.
func (w *Writer) Drop() { w.DropSome(1) }

// DropSome counts events that are lost. It does not wait: if another goroutine counts at the same
// time, one of the two stores both counts.
func (w *Writer) DropSome(n uint64) {
	w.dropped.Add(n)
	for w.open() && w.stored.Load() != w.dropped.Load() && w.storing.TryLock() {
		w.storeDropped()
	}
}

// storeDropped stores the number of dropped events, unless the writer is closed. The lock of stored
// is held, and is released.
func (w *Writer) storeDropped() {
	defer w.storing.Unlock()
	if !w.open() {
		return
	}
	now := w.dropped.Load()
	w.guard(func() { w.store64(recording.OffDropped, now) })
	w.stored.Store(now)
}

// pointer returns the address of a place in the memory.
func (w *Writer) pointer(offset int64) unsafe.Pointer {
	// SAFETY: the offset is computed from the sizes in w.head, and is within the memory, which
	// stays mapped until Close has let every fire end.
	return unsafe.Pointer(&w.memory[offset])
}

// store64 stores an integer at a multiple of 8 bytes, after all that was stored before.
func (w *Writer) store64(offset int64, v uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	atomic.StoreUint64((*uint64)(w.pointer(offset)), binary.NativeEndian.Uint64(b[:]))
}

// store32 is like store64 with 4 bytes.
func (w *Writer) store32(offset int64, v uint32) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], v)
	atomic.StoreUint32((*uint32)(w.pointer(offset)), binary.NativeEndian.Uint32(b[:]))
}

// guard calls f, which stores to the memory. A fault in it ends the recording.
func (w *Writer) guard(f func()) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		w.ended(recover())
	}()
	f()
}

// AddProbe adds a probe to the table and returns its number, or false if there is no room for it.
// Probes with the same description are one probe, because a program may define its providers
// repeatedly.
func (w *Writer) AddProbe(p *recording.Probe) (number uint32, ok bool) {
	entry := p.Append(nil)
	if !w.open() {
		return 0, false // in a forked child, the lock may be held forever
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.open() {
		return 0, false
	}
	if number, ok := w.probes[string(entry)]; ok {
		return number, true
	}
	if w.head.TableUsed+uint64(len(entry)) > w.head.TableBytes {
		return 0, false
	}
	at := recording.HeadBytes + int64(w.head.TableUsed)
	w.head.TableUsed += uint64(len(entry))
	w.guard(func() {
		for i := 0; i < len(entry); i += 8 {
			w.store64(at+int64(i), binary.LittleEndian.Uint64(entry[i:]))
		}
		w.store64(recording.OffTableUsed, w.head.TableUsed)
	})
	number = uint32(len(w.probes))
	w.probes[string(entry)] = number
	return number, true
}

// open reports whether events are appended: the writer is not closed, and this is not a forked
// child.
func (w *Writer) open() bool { return atomic.LoadPointer(&w.at) != nil && w.table.alive != 0 }

// ReadAt implements io.ReaderAt. Writers do not wait for it: like the reader of a file, it may
// copy bytes that they change meanwhile.
func (w *Writer) ReadAt(b []byte, offset int64) (n int, err error) {
	if offset < 0 || offset >= w.Bytes() {
		return 0, io.EOF
	}
	if n = barrier.Copy(b, w.memory[offset:w.Bytes()]); n < len(b) {
		err = io.EOF
	}
	return n, err
}

// Fail ends the recording after a fault: no further event is appended.
func (w *Writer) Fail() {
	w.failed.Store(true)
	atomic.StorePointer(&w.at, nil)
}

// Failed reports whether the recording has ended with a fault.
func (w *Writer) Failed() bool { return w.failed.Load() }

// Close ends the recording. After it has returned, no fire writes to the memory.
func (w *Writer) Close() {
	w.stop()
	world.StopOnce() // no thread is in assembly that it had entered before
}

// stop clears the pointer to the table. It takes every lock once: every store under a lock that
// found the pointer has then ended, and a later holder of the lock finds it cleared.
func (w *Writer) stop() {
	for i := range w.locks {
		w.locks[i].Lock()
		defer w.locks[i].Unlock()
	}
	for i := range w.shared {
		w.shared[i].mu.Lock()
		defer w.shared[i].mu.Unlock()
	}
	w.storing.Lock()
	defer w.storing.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open() && !w.failed.Load() {
		w.guard(func() { w.store32(recording.OffEnded, 1) })
	}
	atomic.StorePointer(&w.at, nil)
}

// takeBack takes the slots from threads that may have ended. Each thread that records takes one
// again. Before another thread may take a slot, the world stops, because its former owner may be
// writing. Two calls at once would free the slots that the other has reserved before the world has
// stopped for it.
func (w *Writer) takeBack() {
	w.takingBack.Lock()
	defer w.takingBack.Unlock()
	used := w.table.slots[:w.table.mask+1]
	for i := range used {
		w.locks[i].Lock()
		if key := &used[i].key; atomic.LoadUint64(key) != 0 {
			atomic.StoreUint64(key, reserved)
		}
		w.locks[i].Unlock()
	}
	world.StopOnce()
	for i := range used {
		atomic.CompareAndSwapUint64(&used[i].key, reserved, 0)
	}
}

// crowded calls takeBack in a goroutine, at most once a second: threads that end leave slots
// without a thread.
func (w *Writer) crowded() {
	now := int64(clock.Now())
	last := w.tookBack.Load()
	if now-last >= int64(time.Second) && w.tookBack.CompareAndSwap(last, now) {
		go w.takeBack()
	}
}
