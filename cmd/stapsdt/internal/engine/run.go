//go:build linux

package engine

import (
	"context"
	"time"
)

// Consumer takes what the programs of subscriptions deliver.
type Consumer interface {
	// FDs are readable when there is something to take.
	FDs() []int
	// Tick takes what there is. It is called when one of the FDs is readable, after Wake, and
	// after the time that it returned last, if not sooner. more says whether to go on.
	Tick() (next time.Duration, more bool, err error)
}

const (
	// Interval is how long a process can have a new file before it is found, if the kernel does
	// not tell. It is also how long the end of a process can go unnoticed.
	Interval = 250 * time.Millisecond
	// rest is how long it can take if the kernel does tell. It is then found at once, and looking
	// at all processes is for what the kernel had no room to tell.
	rest = 2 * time.Second
	// scanShare is the part of a processor that looking at many processes takes: one in this many.
	scanShare = 20
	// pause is the shortest time between two looks at what processes have mapped, because on a
	// busy machine processes map files all the time.
	pause = 20 * time.Millisecond
)

// Run attaches to what appears, and calls Tick, until ctx is done, no process is left, or Tick
// says so.
func (e *Engine) Run(ctx context.Context, c Consumer) error {
	e.running = true
	defer context.AfterFunc(ctx, e.Wake)()
	scan, check := time.Now().Add(Interval), time.Now().Add(Interval)
	mapped, pausing := true, time.Time{} // whether to look at what was mapped, but not before
	for ctx.Err() == nil {
		next, more, err := c.Tick()
		if err != nil || !more {
			return err
		}
		if mapped && time.Now().After(pausing) {
			if mapped, err = e.look(); err != nil {
				return err
			}
			pausing = time.Now().Add(pause)
			if mapped = mapped || e.watcher == nil; e.watcher != nil {
				if err := e.poller.arm(e.watcher.FDs()); err != nil {
					return err
				}
			}
		}
		if time.Now().After(check) {
			if !e.processes.Left() {
				return nil
			}
			e.forget()
			check = time.Now().Add(Interval)
		}
		if start := time.Now(); e.due || start.After(scan) {
			e.due = false
			if err := e.scan(); err != nil {
				return err
			}
			scan = time.Now().Add(max(e.scanInterval(), scanShare*time.Since(start)))
		}
		next = min(next, time.Until(check))
		if mapped {
			next = min(next, time.Until(pausing))
		}
		if err := e.poller.watch(c.FDs()); err != nil {
			return err
		}
		armed, err := e.poller.wait(next)
		if err != nil {
			return err
		}
		mapped = mapped || armed
	}
	return nil
}

func (e *Engine) scanInterval() time.Duration {
	if e.watcher == nil {
		return Interval
	}
	return rest
}

// Wake ends the wait of Run. It may be called by any goroutine.
func (e *Engine) Wake() { e.poller.wake() }
