//go:build linux

package engine

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// scanShare is the part of a processor that looking at all processes takes: one in this many.
	scanShare = 20
	// maxLostDelay is how long the processes wait at most whose mappings the kernel had no room to tell.
	maxLostDelay = 250 * time.Millisecond
)

// pace is when all processes are looked at. A scan is followed by a rest, which is scanShare times as long as the processor time
// that it has used, so that scans take one part in scanShare of a processor, however many processes there are. The rest is cut to
// maxLostDelay where the kernel had no room to tell what processes have mapped, because users whose processes take long to look
// at must not delay those of others for longer, and where a scan is due, for a new subscription, a file that was changed, or
// another attempt after a shortage. The zero value allows a scan.
type pace struct {
	scanned time.Time // when the last scan ended
	rest    time.Duration
	due     time.Time // when there is a scan after a rest that was cut, or zero
}

// spend begins the rest after a scan. Time in which the scan waited for a busy machine or for a file system does not count.
func (p *pace) spend(start, end time.Time, used time.Duration) {
	p.scanned, p.rest = end, scanShare*min(used, end.Sub(start))
	if !p.due.After(start) {
		p.due = time.Time{}
	}
}

// want makes a scan due at a time.
func (p *pace) want(at time.Time) {
	if p.due.IsZero() || at.Before(p.due) {
		p.due = at
	}
}

// allows reports whether it is time for a scan, either because the interval is over or because the kernel lost events.
func (p *pace) allows(now time.Time, interval time.Duration) bool {
	return now.Sub(p.scanned) >= max(interval, p.rest) || p.waits(now) && p.allowsLost(now)
}

// waits reports whether a scan is due, but for a rest.
func (p *pace) waits(now time.Time) bool { return !p.due.IsZero() && !now.Before(p.due) }

func (p *pace) allowsLost(now time.Time) bool { return now.Sub(p.scanned) >= min(p.rest, maxLostDelay) }

// processorTime returns how much processor time this process has used. Files are looked at by several threads.
func processorTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t) // which has no errors
	return time.Duration(t.Nano())
}
