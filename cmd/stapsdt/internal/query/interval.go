package query

import (
	"fmt"
	"time"
)

// Rest is the maximum time for which an idle consumer waits, and for which the end of a forked
// process goes unnoticed.
const Rest = time.Second

// Interval is the time between two reports, or 0 for none.
type Interval struct {
	every time.Duration
	next  time.Time
}

// NewInterval returns an interval that begins now.
func NewInterval(every time.Duration) (*Interval, error) {
	if every < 0 {
		return nil, Usagef("the interval %v is negative", every)
	}
	return &Interval{every: every, next: time.Now().Add(every)}, nil
}

// Due reports whether a report is due. If not, wait is the time until it is. Reports for which this
// process was too late, for example because it was suspended, are left out.
func (i *Interval) Due() (due bool, wait time.Duration) {
	if i.every == 0 {
		return false, Rest
	}
	if wait = time.Until(i.next); wait > 0 {
		return false, wait
	}
	if i.next = i.next.Add(i.every); time.Until(i.next) <= 0 {
		i.next = time.Now().Add(i.every)
	}
	return true, 0
}

// Detachment describes a probe that was detached to keep the budget, while others stayed attached.
type Detachment struct {
	At time.Time
	// After is the time since the run began to attach.
	After time.Duration
}

// String describes the detachment for people, or is "" if there was none.
func (d *Detachment) String() string {
	if d == nil {
		return ""
	}
	return fmt.Sprintf("after %v", d.After.Round(time.Millisecond))
}

// JSON returns the time for programs, or nil if there was none.
func (d *Detachment) JSON() *time.Time {
	if d == nil {
		return nil
	}
	return &d.At
}
