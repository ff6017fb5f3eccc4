// Package raw lets packages of this module read an event as a whole, and whether a probe is
// enabled, where the exported methods, which return one argument at a time and keep each probe
// alive, would take too long.
package raw

import (
	"sync/atomic"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/call"
)

// Event returns the words of a *stapsdt.Event, of which there is one for each argument, and its
// texts: the strings, each with a NUL after it, and where each one ends, before its NUL. All are
// valid as long as the event is. The root package sets Event before there are events.
var Event atomic.Pointer[func(e any) (words []uint64, texts []byte, ends []uint16)]

// Enabled is the method of a *stapsdt.Probe. The caller keeps the probe alive.
func Enabled(probe unsafe.Pointer) bool {
	// SAFETY: the first field of a Probe is a pointer to a byte that says whether the probe
	// is enabled. The probe keeps that byte alive.
	return *(*byte)(atomic.LoadPointer((*unsafe.Pointer)(probe)))&call.Mask == call.Bits
}
