//go:build linux

package kube

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// openTerminal returns both sides of a terminal of 120 columns.
func openTerminal(t *testing.T) (master, terminal *os.File) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	fd := int(master.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 120}))
	t.Cleanup(func() { master.Close(); terminal.Close() })
	go func() { _, _ = io.Copy(io.Discard, master) }()
	return master, terminal
}

// TestTerminal: there is a terminal in the pod if standard input and output are one; its keepalive ends with it. A terminal that is only
// written to says how wide it is.
func TestTerminal(t *testing.T) {
	_, terminal := openTerminal(t)
	r := newRun(t, testCluster(), "trace", "-p", "shop", "shop:*")
	r.command.Env = append(r.command.Env, "TERM=xterm")
	r.command.Stdin, r.command.Stdout = terminal, terminal
	require.Zero(t, r.wait(), r.err.String())
	assert.Regexp(t, `(?m)^exec --stdin --tty .* inpod ask .* --alone --pod=default/shop/app --node=n1 --terminal=\w{26} -- trace -- shop:\*$`, r.calls())
	assert.Regexp(t, `(?m)^exec --stdin --namespace.* inpod accompany \w{26}$`, r.calls())
	assert.Contains(t, r.calls(), "the keepalive has ended")

	r = newRun(t, testCluster(), "trace", "-p", "shop", "shop:*")
	r.command.Env = append(r.command.Env, "TERM=xterm")
	r.command.Stdout = terminal
	require.Zero(t, r.wait(), r.err.String())
	assert.Regexp(t, `(?m)^exec --stdin --namespace.* --alone --pod=default/shop/app --node=n1 --columns=120 --color -- trace -- shop:\*$`, r.calls())

	r = newRun(t, testCluster(), "trace", "-p", "shop", "shop:*")
	r.command.Env = append(r.command.Env, "TERM=xterm", "NO_COLOR=1")
	r.command.Stdin = terminal
	require.Zero(t, r.wait(), r.err.String())
	assert.Regexp(t, `(?m)^exec --stdin --namespace.* --alone --pod=default/shop/app --node=n1 --no-color -- trace -- shop:\*$`, r.calls())
}

// TestTerminalKilled: a plugin that is killed takes the keepalive with it, by which the command with the terminal ends.
func TestTerminalKilled(t *testing.T) {
	_, terminal := openTerminal(t)
	r := newRun(t, testCluster(), "trace", "-p", "shop", "until:stopped")
	r.command.Stdin, r.command.Stdout = terminal, terminal
	r.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	require.NoError(t, r.command.Start())
	r.await("until:stopped")
	require.NoError(t, r.command.Process.Kill())
	r.await("the keepalive has ended")
	_ = r.wait()
}
