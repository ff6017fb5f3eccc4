//go:build linux

package inpod

import (
	"crypto/rand"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/mirror"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pipes are the standard files of a connection, and their other ends.
type pipes struct {
	input, output, problems *os.File
	types, reads            *os.File
}

func newPipes(t *testing.T) *pipes {
	pipe := func() (from, to *os.File) {
		from, to, err := os.Pipe()
		require.NoError(t, err)
		t.Cleanup(func() { from.Close(); to.Close() })
		return from, to
	}
	p := &pipes{}
	p.input, p.types = pipe()
	p.reads, p.output = pipe()
	_, p.problems = pipe()
	return p
}

// read returns the next bytes of a stream.
func (p *pipes) read(t *testing.T, n int) string {
	b := make([]byte, n)
	_, err := io.ReadFull(p.reads, b)
	require.NoError(t, err)
	return string(b)
}

// streamTest is a Stream with its first connection.
type streamTest struct {
	*Stream
	t       *testing.T
	first   *pipes
	token   string
	stopped chan struct{} // is closed once the user has ended the request
}

func newStreamTest(t *testing.T) *streamTest {
	s := &streamTest{t: t, first: newPipes(t), token: rand.Text(), stopped: make(chan struct{})}
	var err error
	s.Stream, err = newStream(&connection{input: s.first.input, output: s.first.output}, s.token, time.Hour, func() { close(s.stopped) })
	require.NoError(t, err)
	t.Cleanup(func() { s.Close(true) })
	s.arrives("first", s.first)
	return s
}

// arrives writes a text to the stream, and requires that it arrives at a connection.
func (s *streamTest) arrives(text string, at *pipes) {
	_, err := s.Write([]byte(text))
	require.NoError(s.t, err)
	require.Equal(s.t, text, at.read(s.t, len(text)))
}

func (s *streamTest) dial() *net.UnixConn {
	c, err := net.DialUnix("unix", nil, address(s.token))
	require.NoError(s.t, err)
	s.t.Cleanup(func() { c.Close() })
	return c
}

// TestStreamGuests: bytes that are no token, no files or no position lead to no connection.
func TestStreamGuests(t *testing.T) {
	s := newStreamTest(t)
	files := string(unix.UnixRights(int(s.first.input.Fd()), int(s.first.output.Fd()), int(s.first.problems.Fd())))
	position := string(mirror.NewPosition(1).Frame())
	for _, sent := range []struct{ token, files, position string }{
		{rand.Text(), files, position}, {s.token, "", position}, {s.token[:9], files, position},
		{s.token, files, string(make([]byte, len(position)))},
	} {
		c := s.dial()
		require.NoError(t, challenge(c, s.token))
		_, _, err := c.WriteMsgUnix([]byte(sent.token), []byte(sent.files), nil)
		require.NoError(t, err)
		_, _ = c.Write([]byte(sent.position))
		_, err = c.Read(make([]byte, 1))
		require.Error(t, err, "%+v", sent)
		c.Close()
	}
	require.Empty(t, s.next)
	s.arrives("still", s.first)
}

// TestStreamConnections: the latest connection replaces those before it, those that hand over nothing make room for it, and a line
// on it ends the request.
func TestStreamConnections(t *testing.T) {
	s := newStreamTest(t)
	silent := make([]*net.UnixConn, 100)
	for i := range silent {
		silent[i] = s.dial()
	}
	var latest *pipes
	ended := make(chan error, 2)
	for i := range 2 {
		next := newPipes(t)
		go func() { ended <- ResumeStream(next.input, next.output, next.problems) }()
		_, err := next.types.Write(append([]byte(s.token+"\n"), mirror.NewPosition(1).Frame()...))
		require.NoError(t, err)
		before, c := s.latest(), <-s.next
		if i == 0 {
			s.guests.mu.Lock()
			require.LessOrEqual(t, len(s.guests.all), 16)
			s.guests.mu.Unlock()
			_, err = silent[0].Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
		}
		s.mu.Lock()
		s.current = c
		s.mu.Unlock()
		_, err = before.output.Write([]byte{0})
		require.ErrorIs(t, err, os.ErrClosed)
		latest = next
	}
	require.ErrorIs(t, <-ended, ErrCut, "the one that was replaced")
	s.arrives("again", latest)
	_, err := latest.types.Write([]byte("\n"))
	require.NoError(t, err)
	<-s.stopped
	s.Close(true)
	require.NoError(t, <-ended)
}

// scarce is a listener whose machine lacks descriptors for a while.
type scarce struct{ errors []error }

func (s *scarce) AcceptUnix() (*net.UnixConn, error) {
	err := s.errors[0]
	s.errors = s.errors[1:]
	return nil, err
}

// TestAcceptAgain: only the end of the listener ends it.
func TestAcceptAgain(t *testing.T) {
	from := &scarce{[]error{unix.EMFILE, unix.ECONNABORTED, net.ErrClosed}}
	(&Stream{}).accept(from)
	require.Empty(t, from.errors)
}

// TestResumeElsewhere: the command hands over nothing to another process of its user that has taken the socket of a request.
func TestResumeElsewhere(t *testing.T) {
	token, p := rand.Text(), newPipes(t)
	listener, err := net.ListenUnix("unix", address(token))
	require.NoError(t, err)
	defer listener.Close()
	_, err = p.types.Write(append([]byte(token+"\n"), mirror.NewPosition(1).Frame()...))
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- ResumeStream(p.input, p.output, p.problems) }()
	c, err := listener.AcceptUnix()
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write(make([]byte, 100))
	require.NoError(t, err)
	all, control := make([]byte, 200), make([]byte, 200)
	for n := 1; n > 0 && err == nil; {
		var size int
		n, size, _, _, err = c.ReadMsgUnix(all, control)
		require.Zero(t, size)
		require.NotContains(t, string(all[:max(n, 0)]), token)
	}
	require.ErrorIs(t, <-ended, ErrNoRequest)
}
