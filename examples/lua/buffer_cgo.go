//go:build cgo

package main

// #include <stdlib.h>
import "C"

import "unsafe"

// allocate returns memory from malloc, and what frees it.
func allocate(size int) (memory []byte, free func(), err error) {
	// C.malloc does not return when there is no memory.
	p := C.malloc(C.size_t(size))
	// SAFETY: malloc's size bytes are ours until free, after which newBuffer drops
	// the slice.
	return unsafe.Slice((*byte)(p), size), func() { C.free(p) }, nil
}
