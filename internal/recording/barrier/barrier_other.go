//go:build !(386 || amd64 || s390x || arm64 || ppc64le || riscv64)

package barrier

import "sync/atomic"

// Load orders the loads before it before those after it, as an atomic operation does that reads and writes. On arm there is no
// instruction for it before ARMv7, and package atomic knows what to do instead.
func Load() {
	var here int32
	atomic.AddInt32(&here, 1)
}

// Store is like Load for stores.
func Store() { Load() }
