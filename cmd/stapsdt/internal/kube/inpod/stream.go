//go:build linux

package inpod

import (
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/mirror"

	"golang.org/x/sys/unix"
)

// Stream is the standard output of a request whose recording is sent while it is made, over one
// connection after another. It is a mirror.Resumer.
type Stream struct {
	patience time.Duration
	token    string
	stop     func()
	listener *net.UnixListener
	next     chan *connection // has the latest one that was not used yet
	guests   guests

	mu      sync.Mutex
	current *connection
}

// connection is a connection of a Stream.
type connection struct {
	input, output *os.File
	problems      *os.File      // the standard error, or nil for this process's own
	peer          *net.UnixConn // to the command that has handed over the files, or nil
	at            *mirror.Frame // the position of the receiver
	stopped       atomic.Bool   // the user has ended the request
}

// lose ends a connection: a Write in progress fails, and the command that has handed it over ends.
func (c *connection) lose() {
	_ = c.input.Close()
	_ = c.output.Close()
	if c.peer != nil {
		_ = c.peer.Close()
	}
}

// NewStream returns the Stream of this process. It takes the standard input and output, and reads
// the token. It calls stop when the user ends the request, and waits for another connection for the
// time patience.
func NewStream(patience time.Duration, stop func()) (*Stream, error) {
	input, err := detach(unix.Stdin, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	output, err := detach(unix.Stdout, unix.O_WRONLY)
	if err != nil {
		return nil, err
	}
	token, err := readToken(input)
	if err != nil {
		return nil, err
	}
	return newStream(&connection{input: input, output: output}, token, patience, stop)
}

// newStream returns a Stream whose first connection is given.
func newStream(
	first *connection, token string, patience time.Duration, stop func(),
) (s *Stream, err error) {
	s = &Stream{
		patience: patience, token: token, stop: sync.OnceFunc(stop),
		next: make(chan *connection, 1), current: first,
	}
	go s.listen(s.current)
	if s.listener, err = net.ListenUnix("unix", address(token)); err != nil {
		return nil, fmt.Errorf("listen for another connection: %w", err)
	}
	go s.accept(s.listener)
	return s, nil
}

// Close ends the connection. The whole recording was sent if isWhole is set.
func (s *Stream) Close(isWhole bool) {
	_ = s.listener.Close()
	c := s.latest()
	if isWhole && c.peer != nil {
		_, _ = c.peer.Write([]byte{whole})
	}
	c.lose()
}

// detach returns a file of its own for a standard descriptor, which refers to /dev/null afterwards.
func detach(fd, mode int) (*os.File, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	if err := discard(fd, mode); err != nil {
		return nil, err
	}
	return pollable(own), nil
}

// discard lets a descriptor refer to /dev/null.
func discard(fd, mode int) error {
	null, err := unix.Open(os.DevNull, mode|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: os.DevNull, Err: err}
	}
	defer unix.Close(null)
	return os.NewSyscallError("dup3", unix.Dup3(null, fd, 0))
}

// pollable returns a file whose Close ends a Read or a Write in progress.
func pollable(fd int) *os.File {
	_ = unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), fmt.Sprintf("/dev/fd/%d", fd))
}

// listen reads the user's input.
func (s *Stream) listen(c *connection) {
	for b := make([]byte, 1); ; {
		n, err := c.input.Read(b)
		if n > 0 {
			c.stopped.Store(true)
			s.stop()
		}
		if err != nil {
			c.lose()
			return
		}
	}
}

// Write implements io.Writer. It fails if the connection was lost, or another one has come.
func (s *Stream) Write(b []byte) (int, error) { return s.latest().output.Write(b) }

func (s *Stream) latest() *connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Resume implements mirror.Resumer.
func (s *Stream) Resume() (*mirror.Frame, error) {
	c := s.latest()
	c.lose()
	_ = discard(unix.Stderr, unix.O_WRONLY) // it has no reader
	patience := s.patience
	if c.stopped.Load() {
		patience = 0
	}
	select {
	case next := <-s.next:
		_ = unix.Dup3(int(next.problems.Fd()), unix.Stderr, 0)
		_ = next.problems.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.current = next
		return next.at, nil
	case <-time.After(patience):
		return nil, fmt.Errorf("the connection was lost, and no new one came within %v", patience)
	}
}

// replace makes a connection the next one.
func (s *Stream) replace(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case earlier := <-s.next:
		_ = earlier.problems.Close()
		earlier.lose()
	default:
	}
	s.next <- c
	s.current.lose()
}
