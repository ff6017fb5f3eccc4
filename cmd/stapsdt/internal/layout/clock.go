//go:build linux

package layout

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// At converts a time that a program has written to a time of CLOCK_MONOTONIC. The kernel uses the clock of the machine,
// which a time namespace shifts.
func At(kernel uint64) time.Duration { return time.Duration(kernel) + shift() }

var shift = sync.OnceValue(func() time.Duration {
	offsets, _ := os.ReadFile("/proc/self/timens_offsets") // the file exists from Linux 5.6 on
	return monotonicOffset(string(offsets))
})

// monotonicOffset returns how far CLOCK_MONOTONIC of a time namespace is ahead of the machine's.
func monotonicOffset(offsets string) time.Duration {
	for line := range strings.Lines(offsets) {
		var clock string
		var seconds, nanoseconds time.Duration
		if n, _ := fmt.Sscan(line, &clock, &seconds, &nanoseconds); n == 3 && clock == "monotonic" {
			return seconds*time.Second + nanoseconds
		}
	}
	return 0
}
