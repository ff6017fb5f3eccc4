//go:build linux

package run

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/engine"
)

// Interval is the time between two reports, or 0 for none.
type Interval struct {
	every time.Duration
	next  time.Time
}

// NewInterval returns an interval that begins now.
func NewInterval(every time.Duration) (*Interval, error) {
	if every < 0 {
		return nil, console.Usagef("the interval %v is negative", every)
	}
	return &Interval{every: every, next: time.Now().Add(every)}, nil
}

// Due reports whether a report is due. If not, wait is the time until it is.
func (i *Interval) Due() (due bool, wait time.Duration) {
	if i.every == 0 {
		return false, engine.Rest
	}
	if wait = time.Until(i.next); wait > 0 {
		return false, wait
	}
	i.next = i.next.Add(i.every)
	return true, 0
}
