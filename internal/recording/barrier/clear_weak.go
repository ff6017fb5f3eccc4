//go:build !(386 || amd64 || s390x) || race

package barrier

import "sync/atomic"

// Clear stores 0 after all that was stored before, so that a thread that reads the 0 sees those
// stores too.
func Clear(p *atomic.Uintptr) { p.Store(0) }
