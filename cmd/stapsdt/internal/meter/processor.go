//go:build linux

package meter

import (
	"time"

	"golang.org/x/sys/unix"
)

// Processor sums the processor time of processes.
type Processor struct {
	last map[int]time.Duration // by PID
	used time.Duration
}

// Used returns the processor time that processes have used since its first call, in nanoseconds. pids are the
// existing processes. The time of a process that has ended is included up to the last call that saw it.
func (p *Processor) Used(pids []int) time.Duration {
	first := p.last == nil
	now := map[int]time.Duration{}
	for _, pid := range pids {
		used, err := processTime(pid)
		if err != nil {
			continue // it has ended
		}
		now[pid] = used
		if before, known := p.last[pid]; known && before <= used {
			p.used += used - before
		} else if !first {
			p.used += used
		}
	}
	p.last = now
	return p.used
}

// processTime returns the processor time of a process by its clock (clock_getcpuclockid(3)), which needs no
// rights, and has nanoseconds where /proc/PID/stat has hundredths of a second.
func processTime(pid int) (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &t); err != nil {
		return 0, err
	}
	return time.Duration(t.Nano()), nil
}
