//go:build linux

package engine

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
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
	var look time.Time // when to look at what was mapped, at the earliest
	for ctx.Err() == nil {
		next, more, err := c.Tick()
		if err != nil || !more {
			return err
		}
		if time.Now().After(look) {
			waiting, err := e.look()
			if err != nil {
				return err
			}
			look = time.Now().Add(pause)
			if waiting || e.watcher == nil {
				next = min(next, pause)
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
		e.wait(min(next, time.Until(check)), c.FDs(), time.Until(look))
	}
	return nil
}

func (e *Engine) scanInterval() time.Duration {
	if e.watcher == nil {
		return Interval
	}
	return rest
}

// wait waits until one of the descriptors is readable, Wake is called, a process has mapped a file,
// or the time is over. What processes map does not end it in the first part, quiet.
func (e *Engine) wait(most time.Duration, fds []int, quiet time.Duration) {
	if most <= 0 {
		return
	}
	watched := fds
	if e.watcher != nil {
		watched = append(watched[:len(watched):len(watched)], e.watcher.FDs()...)
		if quiet = min(quiet, most); quiet > 0 {
			if e.waker.wait(quiet, fds) || most == quiet {
				return
			}
			most -= quiet
		}
	}
	e.waker.wait(most, watched)
}

// Wake ends the wait of Run. It may be called by any goroutine.
func (e *Engine) Wake() { e.waker.wake() }

// waker waits for descriptors, until it is woken.
type waker struct{ fd int }

func newWaker() (*waker, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	return &waker{fd}, err
}

func (w *waker) wake() { _, _ = unix.Write(w.fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// wait reports whether a descriptor is readable or it was woken, and not just the time is over.
func (w *waker) wait(most time.Duration, fds []int) bool {
	polled := make([]unix.PollFd, 0, len(fds)+1)
	for _, fd := range append([]int{w.fd}, fds...) {
		polled = append(polled, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	n, err := unix.Poll(polled, int((most+time.Millisecond-1)/time.Millisecond))
	if polled[0].Revents != 0 {
		var count [8]byte
		_, _ = unix.Read(w.fd, count[:])
	}
	return n > 0 || err != nil
}

func (w *waker) close() { unix.Close(w.fd) }
