package words

import "unsafe"

// NoEscape returns p, but hides this from the compiler: otherwise every argument of an interface's
// method would escape to the heap. The method must not keep the pointer.
//
//go:nosplit
func NoEscape(p unsafe.Pointer) unsafe.Pointer {
	address := uintptr(p)
	// SAFETY: the stack does not move here, because nothing is called. From here on it is a pointer
	// again, which is adjusted when the stack moves.
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}
