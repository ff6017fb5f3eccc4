//go:build linux

package socket

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
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

// TestMoved: a process that has entered another network namespace does not hide a socket of the one that it was in.
func TestMoved(t *testing.T) {
	unshare := testenv.NeedsTool(t, "unshare", "util-linux")
	testenv.NeedsRoot(t)
	testenv.NeedsNamespaces(t, "network", unix.CLONE_NEWNET)
	dir, err := os.MkdirTemp("", "moved") // with a short path
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	// The shell has a smaller PID than its child, and so stands for the namespace of both.
	shell := exec.Command(unshare, "--net", "sh", "-c", "sleep 100 & echo $!; read line; exec unshare --net sleep 100")
	in, err := shell.StdinPipe()
	require.NoError(t, err)
	out, err := shell.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, shell.Start())
	var child int
	t.Cleanup(func() {
		_ = unix.Kill(child, unix.SIGKILL)
		_, _ = shell.Process.Kill(), shell.Wait()
	})
	_, err = fmt.Fscan(out, &child)
	require.NoError(t, err)
	found := func(n *Newcomers) bool {
		return slices.ContainsFunc(n.Processes(), func(p *Process) bool { return p.PID == child && !p.Elsewhere })
	}
	n := &Newcomers{}
	require.False(t, found(n))
	of, before := n.known[child], network(shell.Process.Pid)
	require.Equal(t, before, n.known[shell.Process.Pid].namespace)
	require.Equal(t, before, of.namespace)
	_, err = io.WriteString(in, "\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return network(shell.Process.Pid) != before }, testenv.Patience, time.Millisecond)
	l := listenIn(t, child, filepath.Join(dir, of.process.name()+".sock"))
	defer l.Close()
	require.True(t, found(n))
}

// listenIn listens in the network namespace of a process.
func listenIn(t *testing.T, pid int, at string) net.Listener {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	require.NoError(t, err)
	defer own.Close()
	other, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, unix.Setns(int(other.Fd()), unix.CLONE_NEWNET))
	defer func() { require.NoError(t, unix.Setns(int(own.Fd()), unix.CLONE_NEWNET)) }()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	require.NoError(t, err)
	return l
}

// TestPossible: there may be newcomers if a thread was started or a socket listens, and after a time.
func TestPossible(t *testing.T) {
	n := &Newcomers{}
	require.True(t, n.Possible(os.Getpid()))
	n.looked = time.Now().Add(-longestUnseen)
	require.True(t, n.Possible(os.Getpid()))
}
