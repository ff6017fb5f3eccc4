package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic returns CLOCK_MONOTONIC, which bpftrace shows as nsecs.
func monotonic() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
