//go:build linux

package engine

import (
	"errors"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// poller waits until descriptors are readable. It waits with the runtime's poller, because a
// thread that blocks in a system call keeps the runtime busy.
type poller struct {
	fd     int      // the epoll descriptor
	file   *os.File // the file of fd
	woken  *os.File // an eventfd; a file makes a wake after close harmless
	fds    []int    // the descriptors of watch
	heard  []int    // the descriptors of listen
	hears  func() bool
	events [16]unix.EpollEvent
}

func newPoller() (p *poller, err error) {
	p = &poller{fd: -1}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	woken, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	p.woken = os.NewFile(uintptr(woken), "eventfd")
	if p.fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("epoll_create", err)
	}
	if err := unix.SetNonblock(p.fd, true); err != nil { // os.NewFile requires it
		return nil, os.NewSyscallError("fcntl", err)
	}
	p.file = os.NewFile(uintptr(p.fd), "epoll")
	return p, p.control(unix.EPOLL_CTL_ADD, woken, unix.EPOLLIN)
}

func (p *poller) control(op, fd int, events uint32) error {
	err := unix.EpollCtl(p.fd, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
	return os.NewSyscallError("epoll_ctl", err)
}

// wake ends a wait. It may be called by any goroutine.
func (p *poller) wake() { _, _ = p.woken.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// watch sets the descriptors that end a wait as long as they are readable.
func (p *poller) watch(fds []int) error { return p.set(&p.fds, fds) }

// listen sets descriptors that end a wait only if hears returns true when they become readable.
// Polling such a descriptor changes the answer (perf_event_open(2), overflow handling), and epoll
// polls twice, so hears has to read the answer from memory.
func (p *poller) listen(fds []int, hears func() bool) error {
	p.hears = hears
	return p.set(&p.heard, fds)
}

// set replaces descriptors by others.
func (p *poller) set(old *[]int, fds []int) error {
	if slices.Equal(fds, *old) {
		return nil
	}
	for _, fd := range *old {
		_ = p.control(unix.EPOLL_CTL_DEL, fd, 0) // it may be closed by now
	}
	*old = slices.Clone(fds)
	for _, fd := range fds {
		if err := p.control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN); err != nil {
			return err
		}
	}
	return nil
}

// wait waits for at most the given time, and reports whether that time has passed.
func (p *poller) wait(most time.Duration) (over bool, err error) {
	if err := p.file.SetReadDeadline(time.Now().Add(max(most, 0))); err != nil {
		return false, err
	}
	conn, err := p.file.SyscallConn()
	if err != nil {
		return false, err
	}
	err = conn.Read(func(uintptr) (done bool) {
		n, _ := unix.EpollWait(p.fd, p.events[:], 0)
		for _, e := range p.events[:max(n, 0)] {
			done = done || !slices.Contains(p.heard, int(e.Fd))
			if int(e.Fd) == int(p.woken.Fd()) {
				var count [8]byte
				_, _ = p.woken.Read(count[:])
			}
		}
		return done || p.hears != nil && p.hears()
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return true, nil
	}
	return false, err
}

func (p *poller) close() {
	if p.file != nil {
		p.file.Close()
	} else if p.fd >= 0 {
		unix.Close(p.fd)
	}
	p.woken.Close()
}
