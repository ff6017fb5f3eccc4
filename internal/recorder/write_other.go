//go:build !amd64 || stapsdt_noload

package recorder

import "unsafe"

// slotsWork reports that no thread has a slot: only the shards with locks are used.
func slotsWork() bool { return false }

func write(*unsafe.Pointer, *record, uint64) (done bool) {
	return false
}

func thread() uintptr { return 0 }

// goroutine returns that the number is unknown.
func goroutine() uint64 { return 0 }

func counter() uint64 { return 0 }

func invariantCounter() bool { return false }
