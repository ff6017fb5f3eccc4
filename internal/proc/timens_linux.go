package proc

import (
	"strconv"
	"strings"
	"time"
)

// StartSeen converts a start time in /proc/PID/stat, in ticks since the boot, to the time that the
// process itself sees there: in another time namespace, the boot was at another time.
func StartSeen(process string, start uint64) uint64 {
	const tick = 10 * time.Millisecond
	return start + uint64((ClockOffset(process, "boottime")-ClockOffset("self", "boottime"))/tick)
}

// ClockOffset returns how far a clock, "monotonic" or "boottime", of a process's time namespace is
// ahead of the machine's.
func ClockOffset(process, clock string) time.Duration {
	// The file exists from Linux 5.6 on.
	return clockOffset(string(Read("/proc/"+process+"/timens_offsets", 256)), clock)
}

func clockOffset(offsets, clock string) time.Duration {
	for line := range strings.Lines(offsets) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == clock {
			seconds, _ := strconv.ParseInt(fields[1], 10, 64)
			nanoseconds, _ := strconv.ParseInt(fields[2], 10, 64)
			return time.Duration(seconds)*time.Second + time.Duration(nanoseconds)
		}
	}
	return 0
}
