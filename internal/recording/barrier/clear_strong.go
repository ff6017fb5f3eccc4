//go:build (386 || amd64 || s390x) && !race

package barrier

import (
	"sync/atomic"
	"unsafe"
)

// Clear stores 0 after all that was stored before, so that a thread that reads the 0 sees those
// stores too. Where the processor keeps stores in their order, it takes a plain store: that of
// sync/atomic is ordered against later loads as well, which takes as long as a compare-and-swap.
func Clear(p *atomic.Uintptr) {
	// SAFETY: an atomic.Uintptr is a uintptr, of which a store is one instruction. The compiler
	// keeps the order of stores, too: in its intermediate form, each takes the memory that the
	// former has left.
	*(*uintptr)(unsafe.Pointer(p)) = 0
}
