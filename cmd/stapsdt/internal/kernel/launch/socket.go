//go:build linux

package launch

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/internal/tracer"

	"golang.org/x/sys/unix"
)

const (
	// backlog is the number of processes that can wait until they are accepted. Others go on.
	backlog = 1024
	// maxAccepted is the number of processes that Loaded returns at a time.
	maxAccepted = 64
	// maxPath is the maximum length of the path of a socket. If it is too short for the providers,
	// loads of all wait.
	maxPath = 107
)

// socket is the socket by which the programs of a command report that they have loaded probes: see
// package tracer.
type socket struct {
	dir, path string
	fd        int // -1 unless it is open
}

// listen opens a socket for loads of the providers that specs select. It is not open if these are
// functions alone. Only the programs of the command know its path, which others cannot guess,
// so they may have changed their user. If listen fails, the socket is not open.
// The sticky bit keeps programs that clean by age (tmpfiles.d(5)) from deleting the socket.
func listen(specs []string) (s *socket, err error) {
	tidy(os.TempDir())
	s = &socket{fd: -1}
	providers, some := spec.Providers(specs)
	if some && len(providers) == 0 {
		return s, nil
	}
	if s.dir, err = os.MkdirTemp("", prefix); err != nil {
		return s, err
	}
	defer func() {
		if err != nil {
			err = &os.PathError{Op: "listen", Path: s.path, Err: err}
			s.Leave()
		}
	}()
	s.path = filepath.Join(s.dir, rand.Text())
	if listed := strings.Join(append([]string{s.path}, providers...), ","); len(listed) <= maxPath {
		s.path = listed
	}
	if err := os.Chmod(s.dir, 0o711); err != nil {
		return s, err
	}
	s.fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		s.fd = -1
		return s, err
	}
	if err := unix.Bind(s.fd, &unix.SockaddrUnix{Name: s.path}); err != nil {
		return s, err
	}
	if err := os.Chmod(s.path, 0o666|os.ModeSticky); err != nil {
		return s, err
	}
	return s, unix.Listen(s.fd, backlog)
}

// environment returns the environment of the command.
func (s *socket) environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, tracer.Variable+"=")
	})
	if s.fd >= 0 {
		env = append(env, tracer.Variable+"="+s.path)
	}
	return env
}

// FDs returns the descriptor of the socket, or nothing if it is not open.
func (s *socket) FDs() (fds []int) {
	if s.fd >= 0 {
		fds = append(fds, s.fd)
	}
	return fds
}

// Loaded returns the PIDs of processes that have loaded probes. They wait until proceed is called,
// but no longer than tracer.Patience: proceed returns those that have closed a connection before.
// Any process that knows the path may be among them.
func (s *socket) Loaded() (pids []int, proceed func() (late []int)) {
	var connections []connection
	for s.fd >= 0 && len(connections) < maxAccepted {
		fd, _, err := unix.Accept4(s.fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if err == unix.ECONNABORTED || err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN {
			break
		}
		if err != nil { // a shortage would make the socket readable again at once
			s.Leave()
			break
		}
		c := connection{fd: fd}
		if peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			c.pid = int(peer.Pid)
			if !slices.Contains(pids, c.pid) {
				pids = append(pids, c.pid)
			}
		}
		connections = append(connections, c)
	}
	return pids, func() (late []int) {
		for _, c := range connections {
			if c.isLeft() && !slices.Contains(late, c.pid) {
				late = append(late, c.pid)
			}
			unix.Close(c.fd)
		}
		return late
	}
}

// connection is one by which a process waits. The PID is 0 if it is not visible from here.
type connection struct{ fd, pid int }

// isLeft reports whether the process has closed its end.
func (c connection) isLeft() bool {
	polled := []unix.PollFd{{Fd: int32(c.fd)}}
	n, err := unix.Poll(polled, 0)
	return err == nil && n > 0 && polled[0].Revents&unix.POLLHUP != 0
}

// Leave closes and removes the socket. All processes that wait go on, and none waits from now on.
func (s *socket) Leave() {
	if s.fd >= 0 {
		unix.Close(s.fd)
		s.fd = -1
	}
	_ = os.Remove(s.path) // os.RemoveAll needs descriptors, which may be short
	_ = os.Remove(s.dir)
	s.dir, s.path = "", ""
}
