// Package clock reads the monotonic clock that observers see.
package clock

import (
	"sync/atomic"
	"time"
)

// origin relates a time.Time to the clock. It does not change once it is set.
type origin struct {
	start time.Time     // has a monotonic reading
	at    time.Duration // the clock at start
}

// process is the process's origin. The first Now sets it, and not an initializer, so that
// the package runs no code before main.
var process atomic.Pointer[origin]

// Now returns the monotonic clock: CLOCK_MONOTONIC on Linux, to within a fraction of a
// microsecond, and elsewhere the time since an arbitrary point. The differences of its
// results are exact. Now reads the runtime's clock once, which takes no system call.
//
// In a bubble of testing/synctest, Now returns the bubble's time since 1970.
func Now() time.Duration {
	now, _ := Read()
	return now
}

// Read is Now, and reports whether the time goes on by itself, as it does outside of a bubble.
func Read() (now time.Duration, real bool) {
	o := process.Load()
	if o == nil {
		if o = begin(); o == nil {
			return bubble(), false
		}
	}
	d := time.Since(o.start)
	if d < 0 { // a bubble's time begins in the year 2000
		return bubble(), false
	}
	return d + o.at, true
}

// bubble returns the time in a bubble.
func bubble() time.Duration { return time.Since(time.Unix(0, 0)) }

// begin sets the process's origin and returns it. In a bubble, whose time has no monotonic
// reading, it returns nil.
func begin() *origin {
	start := time.Now()
	if start == start.Round(0) {
		return nil
	}
	// The clock is read between two readings of the other. The closest of a few such pairs
	// bounds the error.
	o := &origin{start: start, at: 0}
	best := time.Duration(-1)
	for range 10 {
		before := time.Since(start)
		at := monotonic()
		after := time.Since(start)
		if best < 0 || after-before < best {
			best = after - before
			o.at = at - before - best/2
		}
	}
	if !process.CompareAndSwap(nil, o) {
		o = process.Load()
	}
	return o
}
