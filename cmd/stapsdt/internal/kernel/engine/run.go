//go:build linux

package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
)

// Ticker takes the events that the programs of subscriptions deliver.
type Ticker interface {
	// FDs returns descriptors that are readable when there is something to take.
	FDs() []int
	// Tick takes all pending events. It is called when one of the FDs is readable, after Wake, and
	// when the time that it last returned has passed. more reports whether to go on.
	Tick() (next time.Duration, more bool, err error)
}

const (
	// Interval is the maximum time for which a new mapping or the end of a process goes
	// unnoticed if the kernel does not report it.
	Interval = 250 * time.Millisecond
	// watchedInterval is the time between two scans if the kernel reports mappings. Files are then
	// found at once, and the scans find the files for which the kernel dropped reports.
	watchedInterval = 2 * time.Second
	// pause is the shortest time between two looks at new mappings, because on a busy machine
	// processes map files all the time.
	pause = 20 * time.Millisecond
	// maxPause is the longest such time while only other processes map files, if Options.Patient is
	// set.
	maxPause = Interval
)

// Run attaches to probes as they appear, and calls Tick, until ctx is done, no process is left,
// or Tick ends it.
func (e *Engine) Run(ctx context.Context, c Ticker) error {
	e.running = true
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, e.Wake)()
	go e.wakeWhenBroken(ctx, e.options.Broken)
	check := time.Now().Add(Interval)
	look := true           // whether to look for new mappings
	pausing := time.Time{} // the earliest time of the next look
	var err error
	rested := false     // whether the last wait has ended a pause
	tick := time.Time{} // when Tick is due unless a descriptor is readable
	for e.poller.ready = true; ctx.Err() == nil; {
		var more bool
		if tick, more, err = e.beat(c, tick); err != nil || !more {
			return err
		}
		// Ended processes are looked at as long as Processes still has them.
		checks := time.Now().After(check)
		if checks {
			look = look || e.watcher != nil && e.watcher.Pending()
		}
		if (look || e.isDue()) && (checks || !time.Now().Before(pausing)) {
			if look, err = e.look(); err != nil {
				return err
			}
			if look = look || e.watcher == nil; look || !rested || e.foreign > 0 {
				pausing = time.Now().Add(e.pause())
			}
		}
		if checks {
			if !e.processes.Left() {
				return nil
			}
			e.purge()
			check = time.Now().Add(e.interval(query.Rest))
		}
		if err = e.poller.watch(slices.Concat(c.FDs(), e.processes.FDs())); err != nil {
			return err
		}
		left := time.Until(pausing)
		look, err = e.rest(look, min(time.Until(tick), time.Until(check)), left)
		rested = left > 0
		if err != nil {
			return err
		}
		if e.poller.ready && e.processes.Ended() {
			check = time.Time{}
		}
	}
	return nil
}

// beat calls Tick if it is due or a descriptor is readable, and returns when it is due again. It
// also attaches to what processes have loaded: one that waits does not wait for the end of a
// pause. A process that maps a file is no reason for either: on a busy machine, others do so all
// the time.
func (e *Engine) beat(c Ticker, due time.Time) (_ time.Time, more bool, err error) {
	if e.poller.ready || !time.Now().Before(due) {
		next, more, err := c.Tick()
		if err != nil || !more {
			return due, false, err
		}
		due = time.Now().Add(next)
	}
	if e.poller.ready {
		err = cmp.Or(e.adopt(), e.attachLoaded())
	}
	return due, true, err
}

// rest waits for at most the given time, and reports whether to look for new mappings. New
// mappings do not end the pause. Without a watcher, it always reports true.
func (e *Engine) rest(look bool, most, pause time.Duration) (_ bool, err error) {
	if look {
		_, err = e.poller.wait(min(most, pause))
		return true, err
	}
	if pause > 0 {
		over, err := e.poller.wait(min(most, pause))
		if err != nil || !over || most <= pause || e.watcher.Pending() {
			return e.watcher.Pending() || e.broken.Swap(false), err
		}
		most -= pause
	}
	e.foreign = 0
	if err := e.poller.listen(e.watcher.FDs(), e.watcher.Pending); err != nil {
		return false, err
	}
	_, err = e.poller.wait(most)
	return e.watcher.Pending() || e.broken.Swap(false), errors.Join(err, e.poller.listen(nil, nil))
}

// pause returns the time until the next look at new mappings.
func (e *Engine) pause() time.Duration {
	return min(pause<<min(e.foreign, 8), maxPause)
}

// wakeWhenBroken wakes Run when others write to a file, until ctx is done. It may end after the
// engine was closed.
func (e *Engine) wakeWhenBroken(ctx context.Context, broken <-chan struct{}) {
	for {
		select {
		case <-broken:
			e.broken.Store(true)
			e.Wake()
		case <-ctx.Done():
			return
		}
	}
}

// isDue reports whether it is time to look at all processes again.
func (e *Engine) isDue() bool { return e.pace.allows(time.Now(), e.interval(watchedInterval)) }

// interval returns watched if the kernel reports mappings, and Interval if it does not.
func (e *Engine) interval(watched time.Duration) time.Duration {
	if e.watcher == nil {
		return Interval
	}
	return watched
}

// Wake ends the wait of Run. It may be called by any goroutine.
func (e *Engine) Wake() { e.poller.wake() }
