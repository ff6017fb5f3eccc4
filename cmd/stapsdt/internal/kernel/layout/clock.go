//go:build linux

package layout

import (
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/proc"
)

// At converts a time that a program has written to a time of CLOCK_MONOTONIC. The kernel uses the
// clock of the machine, which a time namespace shifts.
func At(kernel uint64) time.Duration { return time.Duration(kernel) + shift() }

// kernelTime is the opposite of At.
func kernelTime(at time.Duration) uint64 { return uint64(at - shift()) }

var shift = sync.OnceValue(func() time.Duration { return proc.ClockOffset("self", "monotonic") })
