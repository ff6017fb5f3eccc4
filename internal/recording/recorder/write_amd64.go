//go:build !stapsdt_noload

package recorder

import (
	"runtime"
	"runtime/debug"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Where the runtime's g has its M and what debug.SetPanicOnFault sets, and by which bits
// M's addresses differ: see slotsWork.
const (
	offM     = 48
	offFault = 181
	shiftM   = 11
)

// recordHead is recording.RecordHeadBytes, for the assembly, or else this does not compile: neither
// difference may be negative.
const (
	recordHead = 24
	_          = uint(recordHead-recording.RecordHeadBytes) + uint(recording.RecordHeadBytes-recordHead)
)

// write appends a record to the slot of the calling thread, and reports whether it did. It did not
// if the thread has no slot, the chunk has no room, or a Reading is due. at is the address of a
// pointer to the table, or to nil.
//
//go:noescape
func write(at *unsafe.Pointer, r *record, now uint64) (done bool)

// thread returns the address of the M that runs the calling goroutine.
func thread() uintptr

// hasCounter is whether there is a counter to be read.
const hasCounter = true

// counter returns the time stamp counter.
func counter() uint64

// invariantCounter reports whether the processor says that the counter never stops or changes its
// rate.
func invariantCounter() bool

// getm is the runtime's own, which says where the M is.
//
//go:linkname getm runtime.getm
func getm() uintptr

// slotsWork reports whether the runtime has what the assembly reads where it reads it.
func slotsWork() bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return thread() == getm() && numberIsFound() && faultsFound()
}

// fault returns the byte that SetPanicOnFault sets, if it is where it was when this was written.
func fault() byte

// faultsFound reports whether SetPanicOnFault sets that byte.
func faultsFound() bool {
	old := debug.SetPanicOnFault(true)
	on := fault()
	debug.SetPanicOnFault(false)
	off := fault()
	debug.SetPanicOnFault(old)
	return on == 1 && off == 0
}
