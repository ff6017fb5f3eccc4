//go:build linux

package live

import (
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// timer is a timer of the kernel. Its system calls never block, and the runtime is not told of them: it would wake its monitor
// each time, which then looks at the process every 20 µs for a while.
type timer struct {
	*os.File
	fd          uintptr // whose method Fd would make it blocking
	raw         syscall.RawConn
	read        func(fd uintptr) bool
	expirations uint64
}

func newTimer() (*timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	t := &timer{File: os.NewFile(uintptr(fd), "timerfd"), fd: uintptr(fd)}
	t.read = func(fd uintptr) bool {
		// SAFETY: the kernel writes 8 bytes, the size of expirations, during the call.
		_, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&t.expirations)), unsafe.Sizeof(t.expirations))
		return errno != unix.EAGAIN
	}
	if t.raw, err = t.SyscallConn(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// set sets the time after which wait returns, in place of an earlier one.
func (t *timer) set(after time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(after, 1)))}
	// SAFETY: the kernel reads spec during the call.
	_, _, errno := unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, t.fd, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	if errno != 0 {
		panic(errno) // it is a timer, and the time is valid
	}
}

// wait waits until the time that was set has come. It returns an error if the timer is closed.
func (t *timer) wait() error { return t.raw.Read(t.read) }
