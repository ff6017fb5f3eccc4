package tracer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// listen makes this process one that a tracer of some providers, or of all, has started, and returns
// the tracer's socket.
func listen(t *testing.T, backlog int, providers ...string) (fd int) {
	t.Helper()
	dir, err := os.MkdirTemp("", "tracer") // t.TempDir may be too long for an address
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, strings.Join(append([]string{"socket"}, providers...), ","))
	t.Setenv(Variable, path)
	silent.Store(false)
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
	require.NoError(t, unix.Listen(fd, backlog))
	return fd
}

// accept accepts a connection, and requires that it is of this process.
func accept(t *testing.T, fd int) (connection int) {
	t.Helper()
	connection, _, err := unix.Accept(fd)
	require.NoError(t, err)
	peer, err := unix.GetsockoptUcred(connection, unix.SOL_SOCKET, unix.SO_PEERCRED)
	require.NoError(t, err)
	require.EqualValues(t, os.Getpid(), peer.Pid)
	return connection
}

// pending returns the number of connections that were not accepted.
func pending(t *testing.T, fd int) (n int) {
	t.Helper()
	require.NoError(t, unix.SetNonblock(fd, true))
	for {
		connection, _, err := unix.Accept(fd)
		if err == unix.EAGAIN {
			return n
		}
		require.NoError(t, err)
		unix.Close(connection)
		n++
	}
}

// TestAwait: a call returns after the answer, and not before.
func TestAwait(t *testing.T) {
	fd := listen(t, 10)
	defer unix.Close(fd)
	descriptors := testenv.Descriptors()
	for range 100 {
		returned := make(chan bool)
		var answered atomic.Bool
		go func() {
			Await("p")
			returned <- answered.Load()
		}()
		connection := accept(t, fd)
		answered.Store(true)
		unix.Close(connection)
		require.True(t, <-returned)
	}
	require.False(t, silent.Load())
	require.Equal(t, descriptors, testenv.Descriptors())
}

// TestAsked: a load waits only if the socket lists none or one of the providers.
func TestAsked(t *testing.T) {
	for _, c := range []struct {
		name, loaded string
		want         bool
	}{
		{"socket", "a", true}, {"socket,a,bc", "a", true}, {"socket,a,bc", "x bc", true}, {"socket,a", "a", true}, {"socket,", "a", false},
		{"socket,a,bc", "b c ab socket", false}, {"socket,a,bc", "a,bc", false}, {"socket,a,bc", "", false},
	} {
		for _, path := range []string{c.name, "/tmp/" + c.name, "/tmp,b,c/" + c.name} {
			require.Equal(t, c.want, isAsked(path, strings.Fields(c.loaded)), "%s: %s", path, c.loaded)
		}
	}
	fd := listen(t, 10, "a", "bc")
	defer unix.Close(fd)
	Await("b", "c")
	require.Zero(t, pending(t, fd))
	require.False(t, silent.Load())
	Await("b", "bc")
	require.Equal(t, 1, pending(t, fd))
}

// TestSilent: a tracer that does not answer is waited for only once.
func TestSilent(t *testing.T) {
	fd := listen(t, 10)
	defer unix.Close(fd)
	descriptors := testenv.Descriptors()
	for range 100 {
		Await("p")
	}
	require.True(t, silent.Load())
	require.Equal(t, descriptors, testenv.Descriptors())
	require.Equal(t, 1, pending(t, fd))
}

// TestEnd: the end of a tracer is an answer.
func TestEnd(t *testing.T) {
	fd := listen(t, 10)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() { Await("p") })
	}
	connection := accept(t, fd) // one waits, and others may wait to be accepted
	unix.Close(fd)
	unix.Close(connection)
	all.Wait()
	require.False(t, silent.Load())
}

// TestNoTracer: if the socket cannot be connected to, nothing waits.
func TestNoTracer(t *testing.T) {
	fd := listen(t, 0)
	defer unix.Close(fd)
	path := os.Getenv(Variable)
	descriptors := testenv.Descriptors()
	other, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Connect(other, &unix.SockaddrUnix{Name: path}))
	Await("p") // there is no room for another one
	unix.Close(other)
	require.Equal(t, 1, pending(t, fd))
	for _, value := range []string{"", path + "/none", path + "none", filepath.Dir(path), "/proc/self/exe", "@none", fmt.Sprintf("/%0200d", 0)} {
		os.Setenv(Variable, value)
		Await("p")
	}
	require.NoError(t, os.Unsetenv(Variable))
	Await("p")
	require.False(t, silent.Load())
	require.Zero(t, pending(t, fd))
	require.Equal(t, descriptors, testenv.Descriptors())
}
