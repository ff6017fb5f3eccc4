//go:build linux

package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"

	"golang.org/x/sys/unix"
)

const (
	// minRetry and maxRetry are the first and the longest delay before a retry of what a shortage
	// has made fail.
	minRetry = Interval
	maxRetry = 8 * time.Second
)

// retry is when to try something again. The zero value is due.
type retry struct {
	at    time.Time
	delay time.Duration
}

// due reports whether it is time to try.
func (r *retry) due(now time.Time) bool { return !now.Before(r.at) }

// failed puts the next attempt off, for longer each time, and reports whether this failure is the first one.
func (r *retry) failed(now time.Time) (first bool) {
	first = r.delay == 0
	r.delay = min(max(2*r.delay, minRetry), maxRetry)
	r.at = now.Add(r.delay)
	return first
}

// postpone schedules a retry for a file that a shortage keeps from being attached to, and tells the
// subscriptions once.
func (e *Engine) postpone(f *file, short error, subscriptions []*Subscription) {
	e.crowd(short)
	now := time.Now()
	if f.retry.failed(now) {
		for _, s := range subscriptions {
			s.Problem(fmt.Errorf("%s: %w; trying again", f.Path, short))
		}
	}
	if e.retry.IsZero() || f.retry.at.Before(e.retry) {
		e.retry = f.retry.at
	}
}

// crowd notes that an error is one of descriptors.
func (e *Engine) crowd(err error) {
	e.crowded = e.crowded || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}

// postponed reports whether it is time to attach to files that were put off.
func (e *Engine) postponed() bool {
	if e.retry.IsZero() || time.Now().Before(e.retry) {
		return false
	}
	e.retry = time.Time{}
	return true
}

// Short reports whether a shortage keeps a file from being attached to, which is tried again.
func (e *Engine) Short() bool {
	for _, f := range e.files {
		if f.retry.delay != 0 {
			return true
		}
	}
	return false
}

// complete reports that a shortage kept processes from being looked at, once until that succeeds,
// and what was left out.
func (e *Engine) complete(found *probes.Found) {
	if found.Short != nil && !e.short {
		e.options.Problem(fmt.Errorf("%w; trying again", found.Short))
	}
	e.crowd(found.Short)
	e.short = found.Short != nil
	for _, err := range e.finder.Skips().Unsaid() {
		e.options.Problem(err)
	}
}
