//go:build linux

package deputy

import (
	"net"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/deputy/child"

	"golang.org/x/sys/unix"
)

// children holds the PIDs of the children. An ended one is reaped before the next one starts: a
// goroutine that waits for it would occupy a thread.
var children = struct {
	sync.Mutex
	pids []int
}{}

// start starts a child. It does not use package os, whose first process is preceded by a process
// that only tries whether the kernel has descriptors of processes.
func start(task string) (*net.UnixConn, error) {
	ours, its, err := pair(unix.SOCK_SEQPACKET)
	if err != nil {
		return nil, err
	}
	defer its.Close()
	children.Lock()
	defer children.Unlock()
	children.pids = slices.DeleteFunc(children.pids, func(pid int) bool {
		ended, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		return err != nil || ended == pid
	})
	// The child inherits none of our files, which it would keep open, and gets no signals from the
	// terminal. Its runtime opens the standard files.
	const none = ^uintptr(0)
	pid, err := syscall.ForkExec("/proc/self/exe", []string{child.Name, task}, &syscall.ProcAttr{
		Env: []string{"GOMAXPROCS=1"}, Files: []uintptr{none, none, none, child.Requests: its.Fd()},
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		ours.Close()
		return nil, os.NewSyscallError("starting a child process", err)
	}
	children.pids = append(children.pids, pid)
	return ours, nil
}

// pair returns the ends of a connection of a type.
func pair(kind int) (ours *net.UnixConn, its *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	file := os.NewFile(uintptr(fds[0]), "deputy")
	defer file.Close()
	its = os.NewFile(uintptr(fds[1]), "deputy")
	conn, err := net.FileConn(file)
	if err != nil {
		its.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), its, nil
}
