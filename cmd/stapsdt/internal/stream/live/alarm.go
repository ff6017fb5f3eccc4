//go:build linux

package live

import (
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// alarm lets a goroutine sleep until a time has passed, or until another goroutine rings. It is a
// timer of the kernel. Unlike a Go timer, it does not wake a second thread of the runtime each
// time, nor does it need a second goroutine that waits for a channel; with one of them, an idle
// command would use twice as much processor time. Its system calls never block, and bypass the
// runtime: otherwise the runtime would wake its monitor each time, which then looks at the process
// every 20 µs for a while.
type alarm struct {
	*os.File
	fd          uintptr // the method Fd would make it blocking
	raw         syscall.RawConn
	read        func(fd uintptr) bool
	expirations uint64
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return &alarm{}, os.NewSyscallError("timerfd_create", err)
	}
	a := &alarm{File: os.NewFile(uintptr(fd), "timerfd"), fd: uintptr(fd)}
	a.read = func(fd uintptr) bool {
		// SAFETY: the kernel writes 8 bytes, the size of expirations, during the call.
		_, _, errno := unix.RawSyscall(
			unix.SYS_READ,
			fd,
			uintptr(unsafe.Pointer(&a.expirations)),
			unsafe.Sizeof(a.expirations),
		)
		return errno != unix.EAGAIN
	}
	if a.raw, err = a.SyscallConn(); err == nil {
		err = a.SetReadDeadline(time.Time{}) // fails if the runtime cannot wait for the timer
	}
	return a, err
}

// set sets the time after which wait returns, in place of an earlier one.
func (a *alarm) set(after time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(after, 1)))}
	// SAFETY: the kernel reads spec during the call.
	_, _, errno := unix.RawSyscall6(
		unix.SYS_TIMERFD_SETTIME, a.fd, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0,
	)
	if errno != 0 {
		panic(errno) // cannot happen: fd is a timer, and the time is valid
	}
}

// ring ends the current wait, or the next one unless set is called before. Any goroutine may call
// it, also after Close.
func (a *alarm) ring() {
	if a.raw != nil {
		_ = a.raw.Control(func(uintptr) { a.set(0) }) // fails after Close
	}
}

// wait waits until the time that was set has come. It returns an error if the alarm is closed.
func (a *alarm) wait() error { return a.raw.Read(a.read) }
