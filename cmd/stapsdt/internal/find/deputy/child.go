//go:build linux

package deputy

import (
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// name is a child's first argument, and its task is the second. A child runs the executable
// of this process.
const name = "stapsdt-deputy"

// tasks are the functions with which a child serves a connection until it ends.
var tasks = map[string]func(*net.UnixConn){"read": serveReads, "relay": serveRelays}

// A deputy is any program that has this package, so that tests have one too.
func init() {
	if len(os.Args) != 2 || os.Args[0] != name {
		return
	}
	file := os.NewFile(3, "requests")
	conn, err := net.FileConn(file)
	peer, ok := conn.(*net.UnixConn)
	if err == nil && ok {
		file.Close()
		closeInherited()
		// It ends after the process that it serves, which a service manager may signal too.
		signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
		tasks[os.Args[1]](peer)
	}
	os.Exit(0)
}

// start starts a child.
func start(task string) (conn *net.UnixConn, pid int, err error) {
	ours, its, err := pair(unix.SOCK_SEQPACKET)
	if err != nil {
		return nil, 0, err
	}
	defer its.Close()
	// The child inherits none of our files, which it would keep open, and gets no signals from the
	// terminal.
	c := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{name, task}, Env: []string{"GOMAXPROCS=1"},
		ExtraFiles: []*os.File{its}, SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := c.Start(); err != nil {
		ours.Close()
		return nil, 0, err
	}
	go func() { _ = c.Wait() }()
	return ours, c.Process.Pid, nil
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

// closeInherited closes the descriptors that a shell left to the command, such as ends of pipes.
func closeInherited() {
	all, _ := os.ReadDir("/proc/self/fd")
	for _, f := range all {
		fd, _ := strconv.Atoi(f.Name())
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if fd > 2 && err == nil && flags&unix.FD_CLOEXEC == 0 { // others are not inherited
			unix.Close(fd)
		}
	}
}
