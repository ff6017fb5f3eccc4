//go:build !amd64 || stapsdt_noload

package recorder

import "unsafe"

func write(*unsafe.Pointer, *record, uint64) (done bool) { return false }

// hasAssembly is whether write can append, and there is a counter to be read.
const hasAssembly = false

func counter() uint64 { return 0 }

func invariantCounter() bool { return false }
