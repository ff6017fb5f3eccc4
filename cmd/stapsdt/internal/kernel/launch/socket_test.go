//go:build linux

package launch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/internal/tracer"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// connect connects to a socket as a program does.
func connect(t *testing.T, s *socket) (fd int, err error) {
	t.Helper()
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	require.NoError(t, err)
	return fd, unix.Connect(fd, &unix.SockaddrUnix{Name: s.path})
}

// isOpen reports whether the other side has not closed a connection.
func isOpen(t *testing.T, fd int) bool {
	t.Helper()
	n, err := unix.Read(fd, make([]byte, 1))
	require.True(t, n == 0 && err == nil || err == unix.EAGAIN || err == unix.ECONNRESET, err)
	return err == unix.EAGAIN
}

// TestSocket: however many connections there are, few are accepted at a time. All are closed in the
// end, and nothing remains.
func TestSocket(t *testing.T) {
	t.Setenv("TMPDIR", "/tmp")
	before := testenv.Descriptors()
	s, err := listen(nil)
	require.NoError(t, err)
	dir := s.dir
	const most = 2*maxAccepted + 10
	var all []int
	for range most {
		fd, err := connect(t, s)
		require.NoError(t, err)
		all = append(all, fd)
	}
	open := func() (n int) {
		for _, fd := range all {
			if isOpen(t, fd) {
				n++
			}
		}
		return n
	}
	pids, proceed := s.Loaded()
	require.Equal(t, []int{os.Getpid()}, pids)
	require.Equal(t, most, open())
	proceed()
	require.Equal(t, most-maxAccepted, open())
	_, proceed = s.Loaded()
	s.Leave()
	require.Equal(t, maxAccepted, open())
	proceed()
	require.Zero(t, open())
	for _, fd := range all {
		unix.Close(fd)
	}
	pids, proceed = s.Loaded()
	proceed()
	require.Empty(t, pids)
	require.Empty(t, s.FDs())
	s.Leave()
	require.NoDirExists(t, dir)
	require.Equal(t, before, testenv.Descriptors())
}

// TestLate: a process that has closed its connection before it may proceed has not waited.
func TestLate(t *testing.T) {
	t.Setenv("TMPDIR", "/tmp")
	s, err := listen(nil)
	require.NoError(t, err)
	defer s.Leave()
	for _, want := range [][]int{nil, {os.Getpid()}} {
		for range 2 {
			fd, err := connect(t, s)
			require.NoError(t, err)
			_, err = unix.Write(fd, []byte("what nobody asks for"))
			require.NoError(t, err)
			if want == nil {
				defer unix.Close(fd)
			} else {
				unix.Close(fd)
			}
		}
		pids, proceed := s.Loaded()
		require.Equal(t, []int{os.Getpid()}, pids)
		require.Equal(t, want, proceed())
	}
}

// TestShortage: without a descriptor for a connection, the socket is closed.
func TestShortage(t *testing.T) {
	t.Setenv("TMPDIR", "/tmp")
	s, err := listen(nil)
	require.NoError(t, err)
	dir := s.dir
	fd, err := connect(t, s)
	require.NoError(t, err)
	defer unix.Close(fd)
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	none := limit
	none.Cur = 0
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &none))
	pids, proceed := s.Loaded()
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	proceed()
	require.Empty(t, pids)
	require.Empty(t, s.FDs())
	require.False(t, isOpen(t, fd))
	require.NoDirExists(t, dir)
}

// TestEnvironment: the command finds the socket of its own tracer, and none if there is none.
func TestEnvironment(t *testing.T) {
	found := func(s *socket) (all []string) {
		for _, v := range s.environment() {
			if value, ok := strings.CutPrefix(v, tracer.Variable+"="); ok {
				all = append(all, value)
			}
		}
		return all
	}
	dir := t.TempDir()
	t.Setenv(tracer.Variable, "/outer")
	t.Setenv("TMPDIR", "/tmp")
	s, err := listen(nil)
	require.NoError(t, err)
	require.Equal(t, []string{s.path}, found(s))
	s.Leave()
	t.Setenv("TMPDIR", "/none")
	s, err = listen(nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Empty(t, found(s))
	dir += "/" + strings.Repeat("x", 100) // too long for an address
	require.NoError(t, os.Mkdir(dir, 0o700))
	t.Setenv("TMPDIR", dir)
	s, err = listen(nil)
	require.ErrorIs(t, err, unix.EINVAL)
	require.Empty(t, found(s))
	require.Zero(t, testenv.Entries(dir))
}

// TestListed: the path of the socket has the providers, as far as they are known and there is room. Nothing waits for a
// tracer of functions.
func TestListed(t *testing.T) {
	t.Setenv("TMPDIR", "/tmp")
	long := strings.Repeat("x", 60)
	for _, c := range []struct{ specs, want string }{
		{"app:p", ",app"}, {"b:p a:* b:q", ",a,b"}, {"/bin/x:b:p go:main.*", ",b"}, {"app*:p", ""}, {"*:p a:p", ""}, {"a:p wrong", ""},
		{"a,b:p", ""}, {long + ":p", ""}, {"", ""},
	} {
		s, err := listen(strings.Fields(c.specs))
		require.NoError(t, err)
		_, listed, some := strings.Cut(filepath.Base(s.path), ",")
		require.Equal(t, c.want != "", some, s.path)
		require.Equal(t, strings.TrimPrefix(c.want, ","), listed)
		require.NotEmpty(t, s.FDs())
		s.Leave()
	}
	s, err := listen([]string{"go:main.*", "go:main.*:return"})
	require.NoError(t, err)
	require.Empty(t, s.FDs())
	for _, v := range s.environment() {
		require.False(t, strings.HasPrefix(v, tracer.Variable), v)
	}
	s.Leave()
}

// TestTidy: the directory of a command that was killed is removed, and neither that of one that listens, nor a young one,
// nor one with other files.
func TestTidy(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var sockets []*socket
	for range 4 {
		s, err := listen(nil)
		require.NoError(t, err)
		defer s.Leave()
		sockets = append(sockets, s)
	}
	killed, alive, young, other := sockets[0], sockets[1], sockets[2], sockets[3]
	info, err := os.Stat(alive.path)
	require.NoError(t, err)
	require.Equal(t, os.ModeSocket|os.ModeSticky|0o666, info.Mode())
	require.NoError(t, os.WriteFile(other.dir+"/file", nil, 0o600))
	for _, s := range []*socket{killed, young, other} {
		unix.Close(s.fd)
		s.fd = -1
	}
	empty := filepath.Join(os.TempDir(), prefix+"1")
	require.NoError(t, os.Mkdir(empty, 0o711))
	hour := time.Now().Add(-time.Hour)
	for _, dir := range []string{killed.dir, alive.dir, other.dir, empty} {
		require.NoError(t, os.Chtimes(dir, hour, hour))
	}
	s, err := listen(nil)
	require.NoError(t, err)
	defer s.Leave()
	require.NoDirExists(t, killed.dir)
	require.NoDirExists(t, empty)
	require.FileExists(t, alive.path)
	require.FileExists(t, young.path)
	require.FileExists(t, other.dir+"/file")
}
