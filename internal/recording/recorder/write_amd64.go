//go:build !stapsdt_noload

package recorder

import (
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// recordHead is recording.RecordHeadBytes, for the assembly. This compiles only if they are equal: neither
// difference may be negative.
const (
	recordHead = 24
	_          = uint(recordHead-recording.RecordHeadBytes) + uint(recording.RecordHeadBytes-recordHead)
)

// write appends a record to the slot of the calling thread, and reports whether it did so. It does not
// if the thread has no slot, the chunk has no room, or a Reading is due. at is the address of a
// pointer to the table, or of nil.
//
//go:noescape
func write(at *unsafe.Pointer, r *record, now uint64) (done bool)

// hasAssembly means that write can append, and that there is a counter to read.
const hasAssembly = true

// counter returns the time stamp counter.
func counter() uint64

// invariantCounter reports whether the processor declares that the counter never stops or changes
// its rate.
func invariantCounter() bool
