//go:build linux

// Package child is the part of package deputy that runs in the child processes. A program
// initializes each package after its imports, and the packages that are ready in the order of their
// paths. This package imports only packages that are ready early, so that a child does not
// initialize the rest of the program, which it does not need and which takes several times as long.
package child

import (
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

const (
	// Name is a child's first argument, and its task is the second. A child runs the executable of
	// its parent.
	Name = "stapsdt-deputy"
	// Requests is the number of the descriptor of the child's connection with its parent.
	Requests = 3
)

// The tasks.
const (
	Read  = "read"
	Relay = "relay"
)

// tasks are the functions with which a child serves its parent until the connection ends.
var tasks = map[string]func(){Read: serveReads, Relay: serveRelays}

// Any program that has this package can be a child, so that tests have one too.
func init() {
	if len(os.Args) != 2 || os.Args[0] != Name {
		return
	}
	if serve := tasks[os.Args[1]]; serve != nil {
		closeInherited()
		// It ends after its parent, to which a service manager may send a signal too.
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		serve()
	}
	os.Exit(0)
}

// closeInherited closes the descriptors that a shell left to the command, such as ends of pipes.
func closeInherited() {
	all, _ := os.ReadDir("/proc/self/fd")
	for _, f := range all {
		fd, _ := strconv.Atoi(f.Name())
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
		inherited := errno == 0 && flags&syscall.FD_CLOEXEC == 0
		if fd > 2 && fd != Requests && inherited {
			syscall.Close(fd)
		}
	}
}

// ControlBuffer returns a buffer for all descriptors that a message can have.
func ControlBuffer() []byte { return make([]byte, syscall.CmsgSpace(4*253)) }

// receive is recvmsg(2). It returns the descriptors that came with the message.
func receive(fd int, b, control []byte) (n int, fds []int, err error) {
	var filled int
	for {
		n, filled, _, _, err = syscall.Recvmsg(fd, b, control, syscall.MSG_CMSG_CLOEXEC)
		if err != syscall.EINTR {
			break
		}
	}
	messages, _ := syscall.ParseSocketControlMessage(control[:max(filled, 0)])
	for i := range messages {
		some, _ := syscall.ParseUnixRights(&messages[i]) // it fails for another kind of message
		fds = append(fds, some...)
	}
	return max(n, 0), fds, err
}
