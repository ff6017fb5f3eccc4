//go:build !(386 || amd64 || s390x) || race

package barrier

import "sync/atomic"

// Clear stores 0 after all that was stored before, so that whoever finds the 0 finds that too.
func Clear(p *atomic.Uintptr) { p.Store(0) }
