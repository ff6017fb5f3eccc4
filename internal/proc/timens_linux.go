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
	return start + uint64((offset(process, "boottime")-offset("self", "boottime"))/tick)
}

// Ahead returns by how much CLOCK_MONOTONIC of a process is ahead of that of this one, because it
// is in another time namespace.
func Ahead(process string) time.Duration {
	return offset(process, "monotonic") - offset("self", "monotonic")
}

// offset returns the offset of a process's clock from the machine's: none before Linux 5.6.
func offset(process, clock string) time.Duration {
	for line := range strings.Lines(string(Read("/proc/"+process+"/timens_offsets", 256))) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == clock {
			seconds, _ := strconv.ParseInt(fields[1], 10, 64)
			nanoseconds, _ := strconv.ParseInt(fields[2], 10, 64)
			return time.Duration(seconds)*time.Second + time.Duration(nanoseconds)
		}
	}
	return 0
}
