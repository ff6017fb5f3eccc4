package testenv

import (
	_ "unsafe" // for linkname

	"golang.org/x/sys/unix"
)

// Fork forks the process as fork(2) does, without running another program, and returns 0 in the child. The child has the
// calling thread alone, so it must not wait for anything, and ends by exit_group.
//
// The scheduler may ask the goroutine to make room during the fork, and the child would then wait forever for another thread. So the
// fork is enclosed as that of os/exec is, which takes the request back in both processes.
func Fork() (pid int, err error) {
	beforeFork()
	n, _, errno := unix.RawSyscall(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0)
	afterFork()
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()
