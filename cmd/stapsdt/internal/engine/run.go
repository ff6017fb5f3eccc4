//go:build linux

package engine

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Consumer takes what the programs of subscriptions deliver.
type Consumer interface {
	// FDs returns descriptors that are readable when there is something to take.
	FDs() []int
	// Tick takes what there is. It is called when one of the FDs is readable, after Wake, and at
	// the latest after the time that it returned last. more tells whether to go on.
	Tick() (next time.Duration, more bool, err error)
}

const (
	// Interval is how long a process can have a new file before it is found, and how long its end
	// can go unnoticed, if the kernel does not tell.
	Interval = 250 * time.Millisecond
	// Rest is how long a consumer with nothing to do can wait, and how long the end of a forked
	// process can go unnoticed.
	Rest = time.Second
	// watchedInterval is the time between two scans if the kernel does tell. It finds the file at once then,
	// and the scans are for what the kernel had no room to tell.
	watchedInterval = 2 * time.Second
	// pause is the shortest time between two looks at what processes have mapped, because on a
	// busy machine processes map files all the time.
	pause = 20 * time.Millisecond
)

// Run attaches to probes as they appear, and calls Tick, until ctx is done, no process is left,
// or Tick ends it.
func (e *Engine) Run(ctx context.Context, c Consumer) error {
	e.running = true
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, e.Wake)()
	go e.wakeWhenBroken(ctx)
	scan, check := time.Now().Add(Interval), time.Now().Add(Interval)
	named := e.watchNamed()
	if named != nil {
		defer named.close()
	}
	look := true           // whether to look at what was mapped
	pausing := time.Time{} // but not before
	for ctx.Err() == nil {
		next, more, err := c.Tick()
		if err != nil || !more {
			return err
		}
		if look && !time.Now().Before(pausing) {
			if look, err = e.look(); err != nil {
				return err
			}
			look, pausing = look || e.polls || e.watcher == nil && e.Scans(), time.Now().Add(pause)
		}
		if time.Now().After(check) {
			if !e.processes.Left() {
				return nil
			}
			e.forget()
			check = time.Now().Add(e.checkInterval())
		}
		if now := time.Now(); e.postponed() || e.due || now.After(scan) && e.budget.affords(now) {
			e.due = false
			_, waiting, err := e.renew() // some file systems do not say that a file has changed
			if err == nil {
				err = e.scan()
			}
			if err != nil {
				return err
			}
			look = look || waiting
			scan = time.Now().Add(e.scanInterval())
		}
		fds := slices.Concat(c.FDs(), e.processes.FDs())
		if named != nil {
			fds = append(fds, named.fd)
		}
		if err := e.poller.watch(fds); err != nil {
			return err
		}
		look, err = e.rest(look, min(next, time.Until(check)), time.Until(pausing))
		if err != nil {
			return err
		}
		look = look || named != nil && named.changed()
		if e.processes.Ended() {
			check = time.Time{}
		}
	}
	return nil
}

// rest waits for at most the given time, and reports whether to look at what was mapped. If that
// is due anyway, it waits no longer than the pause.
func (e *Engine) rest(look bool, most, pause time.Duration) (_ bool, err error) {
	switch {
	case look:
		_, err = e.poller.wait(min(most, pause))
		return true, err
	case e.watcher == nil:
		_, err = e.poller.wait(most)
		return e.broken.Swap(false), err
	case pause > 0: // for which it need not know what is mapped
		if over, err := e.poller.wait(min(most, pause)); !over || most <= pause {
			return e.watcher.Pending() || e.broken.Swap(false), err
		}
		most -= pause
	}
	if err := e.poller.listen(e.watcher.FDs(), e.watcher.Pending); err != nil {
		return false, err
	}
	_, err = e.poller.wait(most)
	return e.watcher.Pending() || e.broken.Swap(false), errors.Join(err, e.poller.listen(nil, nil))
}

// watchNamed watches the files that specs name, which is nil if there is none, or if they have to be
// looked at all the time.
func (e *Engine) watchNamed() *directories {
	var paths []string
	for _, s := range e.subscriptions {
		paths = append(paths, s.Selector().Paths()...)
	}
	if len(paths) == 0 {
		return nil
	}
	named, err := watchDirectories(paths)
	if err != nil {
		e.polls = true
		return nil
	}
	return named
}

// wakeWhenBroken wakes Run when others write to a file, until ctx is done.
func (e *Engine) wakeWhenBroken(ctx context.Context) {
	for {
		select {
		case <-e.finder.Broken():
			e.broken.Store(true)
			e.Wake()
		case <-ctx.Done():
			return
		}
	}
}

func (e *Engine) checkInterval() time.Duration {
	if e.watcher == nil {
		return Interval
	}
	return Rest
}

func (e *Engine) scanInterval() time.Duration {
	if e.watcher == nil {
		return Interval
	}
	return watchedInterval
}

// Wake ends the wait of Run. It may be called by any goroutine.
func (e *Engine) Wake() { e.poller.wake() }
