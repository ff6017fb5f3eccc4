//go:build linux

package live

import (
	"errors"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// alarm wakes a goroutine after a time. Unlike a Go timer, it does not wake a second thread of the
// runtime each time; with one, an idle command would use twice as much processor time.
type alarm struct {
	rang        <-chan time.Time
	timer, doze *timer
}

// over is the channel of an alarm that has rung.
var over = func() <-chan time.Time { c := make(chan time.Time); close(c); return c }()

func newAlarm() (*alarm, error) {
	rang := make(chan time.Time, 1)
	a := &alarm{rang: rang}
	var errs [2]error
	a.timer, errs[0] = newTimer()
	a.doze, errs[1] = newTimer()
	if err := errors.Join(errs[:]...); err != nil {
		a.close()
		return nil, err
	}
	go func() {
		for a.timer.wait() == nil {
			select {
			case rang <- time.Time{}:
			default:
			}
		}
	}()
	return a, nil
}

// set sets the time after which the alarm rings, in place of an earlier one. The alarm may have
// rung already.
func (a *alarm) set(after time.Duration) { a.timer.set(after) }

// sleep lets the calling goroutine sleep. This takes less processor time than an alarm, which has
// to wake another goroutine first.
func (a *alarm) sleep(d time.Duration) {
	a.doze.set(d)
	_ = a.doze.wait() // the timer is open
}

func (a *alarm) close() {
	a.timer.Close()
	a.doze.Close()
}

// timer is a timer of the kernel. Its system calls never block, and bypass the runtime: otherwise
// the runtime would wake its monitor each time, which then looks at the process every 20 µs for a
// while.
type timer struct {
	*os.File
	fd          uintptr // the method Fd would make it blocking
	raw         syscall.RawConn
	read        func(fd uintptr) bool
	expirations uint64
}

func newTimer() (*timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return &timer{}, os.NewSyscallError("timerfd_create", err)
	}
	t := &timer{File: os.NewFile(uintptr(fd), "timerfd"), fd: uintptr(fd)}
	t.read = func(fd uintptr) bool {
		// SAFETY: the kernel writes 8 bytes, the size of expirations, during the call.
		_, _, errno := unix.RawSyscall(
			unix.SYS_READ,
			fd,
			uintptr(unsafe.Pointer(&t.expirations)),
			unsafe.Sizeof(t.expirations),
		)
		return errno != unix.EAGAIN
	}
	if t.raw, err = t.SyscallConn(); err == nil {
		err = t.SetReadDeadline(time.Time{}) // fails if the runtime cannot wait for the timer
	}
	return t, err
}

// set sets the time after which wait returns, in place of an earlier one.
func (t *timer) set(after time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(after, 1)))}
	// SAFETY: the kernel reads spec during the call.
	_, _, errno := unix.RawSyscall6(
		unix.SYS_TIMERFD_SETTIME, t.fd, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0,
	)
	if errno != 0 {
		panic(errno) // cannot happen: fd is a timer, and the time is valid
	}
}

// wait waits until the time that was set has come. It returns an error if the timer is closed.
func (t *timer) wait() error { return t.raw.Read(t.read) }
