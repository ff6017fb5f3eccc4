//go:build linux

package socket

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestNewcomers: a process that was read is not read again at once, but is found as soon as it listens. It is forgotten
// when it has ended, and another user or process with its PID is read.
func TestNewcomers(t *testing.T) {
	dir, err := os.MkdirTemp("", "newcomers") // with a short path
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := exec.Command("sleep", "100")
	require.NoError(t, c.Start())
	pid := c.Process.Pid
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	found := func(n *Newcomers) bool {
		return slices.ContainsFunc(n.Processes(), func(p *Process) bool { return p.PID == pid && !p.Elsewhere })
	}
	n := &Newcomers{}
	require.False(t, found(n))
	first := n.known[pid]
	require.False(t, found(n))
	require.Same(t, first, n.known[pid])
	at := filepath.Join(dir, first.process.name()+".sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	require.NoError(t, err)
	defer l.Close()
	require.True(t, found(n))
	require.Same(t, first, n.known[pid])
	require.Equal(t, at, n.known[pid].found.Path())
	again := n.known[pid].found
	require.True(t, found(n))
	require.Same(t, again, n.known[pid].found)

	first.read = first.read.Add(-longestUnseen)
	require.True(t, found(n))
	require.Same(t, first, n.known[pid])
	first.read = first.read.Add(-longestFound)
	require.True(t, found(n))
	require.NotSame(t, first, n.known[pid])
	second := n.known[pid]
	second.directory = n.known[os.Getpid()].directory
	require.True(t, found(n))
	require.NotSame(t, second, n.known[pid])

	require.NoError(t, c.Process.Kill())
	_ = c.Wait()
	require.False(t, found(n))
	require.NotContains(t, n.known, pid)
}

// TestPossible: there may be newcomers if a thread was started or a socket listens, and after a time.
func TestPossible(t *testing.T) {
	n := &Newcomers{}
	require.True(t, n.Possible(os.Getpid()))
	n.looked = time.Now().Add(-longestUnseen)
	require.True(t, n.Possible(os.Getpid()))
}
