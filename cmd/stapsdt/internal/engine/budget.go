//go:build linux

package engine

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// scanShare is the part of a processor that looking at many processes takes: one in this many.
	scanShare = 20
	// scanSavings is for how long a scan can use what earlier ones have left of their share.
	scanSavings = 2 * time.Second
	// maxLostDelay is how long a scan waits at most that finds what the kernel had no room to tell. A
	// user whose processes take long to look at must not delay those of others for longer.
	maxLostDelay = 250 * time.Millisecond
)

// budget is how much processor time scans may take. The zero value allows one.
type budget struct {
	next time.Time // of a scan, so that scans take no more than scanShare
	lost time.Time // of one for what the kernel had no room to tell, which is not after next
}

// spend accounts for a scan by the processor time that it used. The time that it waited for a busy machine or for a file system does not
// count.
func (b *budget) spend(start, end time.Time, used time.Duration) {
	price := scanShare * min(used, end.Sub(start))
	if saved := start.Add(-scanSavings); b.next.Before(saved) {
		b.next = saved
	}
	b.next = earlier(b.next.Add(price), end.Add(price)) // scans that did not wait leave no debt
	b.lost = earlier(b.next, end.Add(maxLostDelay))
}

func (b *budget) affords(now time.Time) bool     { return !now.Before(b.next) }
func (b *budget) affordsLost(now time.Time) bool { return !now.Before(b.lost) }

// processorTime returns how much processor time this process has used. Files are looked at by several threads.
func processorTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t) // which has no errors
	return time.Duration(t.Nano())
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
