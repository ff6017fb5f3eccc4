package probesock

import (
	"os"

	"github.com/go-stapsdt/stapsdt/internal/descriptor"
	"github.com/go-stapsdt/stapsdt/internal/region"
	"github.com/go-stapsdt/stapsdt/internal/wire"

	"golang.org/x/sys/unix"
)

// The sockets are files, which wait in the runtime's poller as those of package net do. That
// package adds 450 KB to a program.

// listenAt makes a socket at a path, and listens on it.
func listenAt(path string) (*os.File, error) {
	fd, err := descriptor.Socket()
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		unix.Close(fd)
		return nil, &os.PathError{Op: "bind", Path: path, Err: err}
	}
	if err := unix.Listen(fd, unix.SOMAXCONN); err != nil {
		unix.Close(fd)
		_ = os.Remove(path)
		return nil, &os.PathError{Op: "listen", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// accept waits for a connection. It returns an error when the socket is closed.
func accept(socket *os.File) (*os.File, error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	var connected int
	if waitErr := raw.Read(func(fd uintptr) (done bool) {
		for err = unix.EINTR; err == unix.EINTR; {
			connected, err = descriptor.New(func() (int, error) {
				return accept4(fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
			})
		}
		return err != unix.EAGAIN
	}); waitErr != nil {
		return nil, waitErr
	}
	if err != nil {
		return nil, os.NewSyscallError("accept4", err)
	}
	return os.NewFile(uintptr(connected), socket.Name()), nil
}

// sendDescriptor sends a message with a descriptor. The message is short: it is sent at once or not
// at all.
func sendDescriptor(c *os.File, message []byte, descriptor int) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	rights := unix.UnixRights(descriptor)
	if waitErr := raw.Write(func(fd uintptr) (done bool) {
		for err = unix.EINTR; err == unix.EINTR; {
			err = unix.Sendmsg(int(fd), message, rights, nil, unix.MSG_NOSIGNAL)
		}
		return err != unix.EAGAIN
	}); waitErr != nil {
		return waitErr
	}
	return os.NewSyscallError("sendmsg", err)
}

// admitted reports whether the other side is a process of this user, or of root.
func admitted(c *os.File) bool {
	peer, err := wire.Peer(c)
	return err == nil && isAdmitted(peer.Uid, uint32(os.Geteuid()), region.AllUsersMapped)
}

// accept4 is accept4(2) without an address. (unix.Accept4 would bring the addresses of all kinds of
// sockets to every program.)
func accept4(fd uintptr, flags uintptr) (int, error) {
	one, _, errno := unix.Syscall6(unix.SYS_ACCEPT4, fd, 0, 0, flags, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(one), nil
}
