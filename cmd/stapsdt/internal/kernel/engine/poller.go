//go:build linux

package engine

import (
	"os"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// poller waits until descriptors are readable. It waits with the runtime's poller, because a
// thread that blocks in a system call keeps the runtime busy.
type poller struct {
	fd     int      // the epoll descriptor
	file   *os.File // the file of fd
	woken  *os.File // an eventfd; a file makes a wake after close harmless
	timer  int      // a timerfd: the runtime's timers have whole milliseconds, and end a wait twice
	fds    []int    // the descriptors of watch
	heard  []int    // the descriptors of listen
	hears  func() bool
	ready  bool // whether one of fds, or wake, has ended the last wait
	events [16]unix.EpollEvent
}

func newPoller() (p *poller, err error) {
	opening := &poller{fd: -1, timer: -1}
	defer func() {
		if err != nil {
			opening.close()
		}
	}()
	p = opening
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
	p.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	if err := p.control(unix.EPOLL_CTL_ADD, p.timer, unix.EPOLLIN); err != nil {
		return nil, err
	}
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
	p.ready = false
	p.setTimer(most)
	conn, err := p.file.SyscallConn()
	if err != nil {
		return false, err
	}
	err = conn.Read(func(uintptr) (done bool) {
		for _, e := range p.events[:p.poll()] {
			if int(e.Fd) == p.timer {
				over = true
				continue
			}
			p.ready = p.ready || !slices.Contains(p.heard, int(e.Fd))
			if int(e.Fd) == int(p.woken.Fd()) {
				var count [8]byte
				_, _ = p.woken.Read(count[:])
			}
		}
		return over || p.ready || p.hears != nil && p.hears()
	})
	return over && !p.ready, err
}

// setTimer makes the timer readable after a time, in place of an earlier one.
func (p *poller) setTimer(after time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(after, 1)))}
	// SAFETY: the kernel reads spec during the call, which does not block.
	_, _, errno := unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME,
		uintptr(p.timer), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	if errno != 0 {
		panic(errno) // cannot happen: it is a timer, and the time is valid
	}
}

// poll returns the number of events that are there now. The call does not block, and bypasses the
// runtime, as that of a timer of package live does.
func (p *poller) poll() (events int) {
	// SAFETY: the kernel writes at most len(p.events) events during the call.
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT,
		uintptr(p.fd), uintptr(unsafe.Pointer(&p.events)), uintptr(len(p.events)), 0, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

func (p *poller) close() {
	if p.file != nil {
		p.file.Close()
	} else if p.fd >= 0 {
		unix.Close(p.fd)
	}
	if p.woken != nil {
		p.woken.Close()
	}
	if p.timer >= 0 {
		unix.Close(p.timer)
	}
}
