//go:build linux

package region

import (
	"fmt"
	"os"
	"sync"

	"github.com/go-stapsdt/stapsdt/internal/descriptor"

	"golang.org/x/sys/unix"
)

var poller struct {
	sync.Mutex
	started bool
}

// StartPoller starts the runtime's poller, which the first use of package net, of os.Open or of a
// timer starts, and which ends the program if it cannot be started: it takes two descriptors.
// StartPoller tries first to do what the runtime does, with a descriptor more for a file, and
// returns an error if that is impossible. The descriptors do not get the numbers of standard
// files.
func StartPoller() error {
	poller.Lock()
	defer poller.Unlock()
	if poller.started {
		return nil
	}
	defer descriptor.Occupy()()
	if err := tryPoller(); err != nil {
		return fmt.Errorf("start the runtime's poller: %w", err)
	}
	f, err := os.Open("/")
	if err != nil {
		return err
	}
	poller.started = true
	return f.Close()
}

// tryPoller makes and closes what netpollinit of the runtime makes, and opens a file beside it.
func tryPoller() error {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	defer unix.Close(epoll)
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	defer unix.Close(event)
	err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, event, &unix.EpollEvent{Events: unix.EPOLLIN})
	if err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	file, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: "/", Err: err}
	}
	return unix.Close(file)
}
