//go:build linux

package proc

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Exit is the end of a process.
type Exit struct {
	PID int
	// Status is the status for the process's parent. It is 0 if it is unknown.
	Status unix.WaitStatus
}

// String returns a sentence.
func (e Exit) String() string {
	switch {
	case e.Status.Signaled():
		return fmt.Sprintf("process %d was ended by %s", e.PID, signalName(e.Status.Signal()))
	case e.Status.ExitStatus() > 0:
		return fmt.Sprintf("process %d has exited with status %d", e.PID, e.Status.ExitStatus())
	}
	return fmt.Sprintf("process %d has exited", e.PID)
}

// Crashed reports whether the process was ended by a signal that the kernel sends for an
// instruction that it cannot execute.
func (e Exit) Crashed() bool {
	return e.Status.Signaled() && slices.Contains(CrashSignals, e.Status.Signal())
}

// CrashSignals are the signals of instructions that cannot be executed.
var CrashSignals = []unix.Signal{unix.SIGTRAP, unix.SIGSYS, unix.SIGILL, unix.SIGSEGV, unix.SIGBUS}

// signalName returns a name such as SIGKILL. Signals of programs' own have none.
func signalName(s unix.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}

// maxExits limits the descriptors of an Exits.
const maxExits = 256

// Exits learns how processes end. The zero value watches none.
type Exits struct {
	fds map[int]int // the pidfds, by PID
}

// Watch adds a process, unless too many are watched. The end of a process that cannot be watched is
// not reported.
func (x *Exits) Watch(pid int) {
	if _, known := x.fds[pid]; known || len(x.fds) == maxExits {
		return
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	if x.fds == nil {
		x.fds = map[int]int{}
	}
	x.fds[pid] = fd
}

// FDs returns descriptors that are readable when one of the processes has ended.
func (x *Exits) FDs() []int { return slices.Sorted(maps.Values(x.fds)) }

// Ended returns the ends of the processes that have ended, and no longer watches these.
func (x *Exits) Ended() (ended []Exit) {
	var pids []int
	var polled []unix.PollFd
	for pid, fd := range x.fds {
		pids = append(pids, pid)
		polled = append(polled, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	if n, err := unix.Poll(polled, 0); n <= 0 || err != nil {
		return nil
	}
	for i, p := range polled {
		if p.Revents == 0 {
			continue
		}
		pid, fd := pids[i], int(p.Fd)
		ended = append(ended, Exit{pid, exitStatus(pid, fd)})
		delete(x.fds, pid)
		unix.Close(fd)
	}
	return ended
}

// Close watches no process any longer.
func (x *Exits) Close() {
	for _, fd := range x.fds {
		unix.Close(fd)
	}
	x.fds = nil
}

// exitStatus returns the status of a process that has ended, or 0. The kernel tells it for a pidfd
// after the parent has waited for the process, and until then in /proc, if this process may trace
// it.
func exitStatus(pid, fd int) unix.WaitStatus {
	if status, known := reapedStatus(fd); known {
		return status
	}
	// Both come from one look, because the process may be gone at the next. Its parent has begun to
	// wait for it if it is dead.
	const state, exitCode = 0, 49 // of proc_pid_stat(5), from the state on
	stat, _ := readStat(pid)
	// It may have been waited for meanwhile, and another process may have its PID.
	if status, known := reapedStatus(fd); known {
		return status
	}
	code, err := strconv.Atoi(word(stat, exitCode))
	if err != nil || !strings.Contains("ZX", word(stat, state)) {
		return 0
	}
	return unix.WaitStatus(code)
}

// pidfdInfo is struct pidfd_info in its first version, PIDFD_INFO_SIZE_VER0 of
// include/uapi/linux/pidfd.h. Linux has it since 6.13, and the end of a process since 6.15.
type pidfdInfo struct {
	mask, cgroup uint64
	_            [11]uint32 // pid to fsgid
	exitCode     int32
}

const (
	pidfdInfoExit = 1 << 3 // PIDFD_INFO_EXIT
	// pidfdGetInfo is PIDFD_GET_INFO: _IOWR(0xFF, 11, struct pidfd_info).
	pidfdGetInfo = 3<<30 | unsafe.Sizeof(pidfdInfo{})<<16 | 0xFF<<8 | 11
)

// reapedStatus returns the status of a process that was waited for, if the kernel tells it.
func reapedStatus(fd int) (status unix.WaitStatus, known bool) {
	info := pidfdInfo{mask: pidfdInfoExit}
	// SAFETY: the kernel reads and writes as many bytes as the request's number says, which is the
	// size of info, during the call.
	_, _, errno := unix.Syscall(unix.SYS_IOCTL,
		uintptr(fd), pidfdGetInfo, uintptr(unsafe.Pointer(&info)))
	if errno != 0 || info.mask&pidfdInfoExit == 0 {
		return 0, false
	}
	return unix.WaitStatus(info.exitCode), true
}
