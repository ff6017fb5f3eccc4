//go:build linux

package engine

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// scanShare limits scans of all processes to one part in scanShare of a processor.
	scanShare = 20
	// maxLostDelay is the longest wait for processes whose mappings the kernel failed to report.
	maxLostDelay = 250 * time.Millisecond
)

// pace decides when all processes are scanned. A scan is followed by a rest, which is scanShare
// times as long as the processor time that the scan has used, so that scans take one part in
// scanShare of a processor, however many processes there are. The rest is cut to maxLostDelay if
// the kernel dropped reports of mappings, because users whose processes are slow to scan must not
// delay other users for longer, and if a scan is due: for a new subscription, a changed file, or
// another attempt after a shortage. The zero value allows a scan.
type pace struct {
	scanned time.Time // when the last scan ended
	rest    time.Duration
	due     time.Time // when a scan becomes due that shortens the rest, or zero
}

// spend begins the rest after a scan. Time in which the scan waited for a busy machine or for a
// file system does not count.
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

// allows reports whether it is time for a scan, either because the interval is over or because the
// kernel lost events.
func (p *pace) allows(now time.Time, interval time.Duration) bool {
	return now.Sub(p.scanned) >= max(interval, p.rest) || p.waits(now) && p.allowsLost(now)
}

// waits reports whether a scan is due, whether or not the rest is over.
func (p *pace) waits(now time.Time) bool { return !p.due.IsZero() && !now.Before(p.due) }

func (p *pace) allowsLost(now time.Time) bool {
	return now.Sub(p.scanned) >= min(p.rest, maxLostDelay)
}

// processorTime returns the processor time of this whole process, because several threads read
// files.
func processorTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t) // it cannot fail
	return time.Duration(t.Nano())
}
