//go:build cgo

package main

// #include <stdlib.h>
import "C"

import "unsafe"

// allocate returns memory from malloc, and a function that frees it.
func allocate(size int) (memory []byte, free func(), err error) {
	// If there is no memory, C.malloc does not return.
	p := C.malloc(C.size_t(size))
	// SAFETY: the size bytes from malloc belong to us until free. newBuffer drops the
	// slice after that.
	return unsafe.Slice((*byte)(p), size), func() { C.free(p) }, nil
}
