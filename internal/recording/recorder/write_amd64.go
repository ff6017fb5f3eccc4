//go:build !stapsdt_noload

package recorder

import (
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// recordHead is recording.RecordHeadBytes, for the assembly. This compiles only if they are equal:
// neither difference may be negative.
const (
	recordHead = 24
	_          = uint(recordHead-recording.RecordHeadBytes) + uint(
		recording.RecordHeadBytes-recordHead,
	)
)

// These are for the assembly too.
const (
	typeString = kind.TypeString
	maxText    = recording.MaxText
)

// write appends a record of these arguments to the slot of the calling thread, and reports whether
// it did so. It does not if the thread has no slot, the chunk has no room, a Reading is due, or the
// writer is closed. f may be nil if the memory cannot fail and the time is the processor's counter.
//
//go:noescape
func write(s *shape, args unsafe.Pointer, f *fire) (done bool)

// hasAssembly means that write can append, and that there is a counter to read.
const hasAssembly = true

// counter returns the time stamp counter.
func counter() uint64

// invariantCounter reports whether the processor declares that the counter never stops or changes
// its rate.
func invariantCounter() bool
