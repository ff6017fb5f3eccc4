//go:build !amd64 || stapsdt_noload

package recorder

import "unsafe"

// shiftM is unused: no thread has a slot.
const shiftM = 0

// slotsWork reports that no thread has a slot: only the shards with locks are used.
func slotsWork() bool { return false }

func write(*unsafe.Pointer, *record, uint64) (done bool) {
	return false
}

func thread() uintptr { return 0 }

// hasCounter is whether there is a counter to be read.
const hasCounter = false

func counter() uint64 { return 0 }

func invariantCounter() bool { return false }
