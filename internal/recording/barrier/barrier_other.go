//go:build !(386 || amd64 || s390x || arm64 || ppc64le || riscv64)

package barrier

import "sync/atomic"

// Load orders the loads before it before the loads after it, like an atomic operation that reads
// and writes. On arm there is no instruction for it before ARMv7, and package atomic has a
// substitute.
func Load() {
	var here int32
	atomic.AddInt32(&here, 1)
}

// Store is like Load for stores.
func Store() { Load() }
