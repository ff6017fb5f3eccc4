//go:build linux

package inpod

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestAwaitAlone: a command is alone when its keepalive has ended.
func TestAwaitAlone(t *testing.T) {
	token := fmt.Sprint("token-of-test-", os.Getpid())
	c := exec.Command("cat", "-", Keepalive, token)
	in, err := c.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	pid := c.Process.Pid
	// The kernel closes the pipe by which Start waits for execve before the process has its arguments.
	require.Eventually(t, func() bool { return keepalive(token) == pid }, testenv.Patience, time.Millisecond)
	ended := make(chan error)
	time.AfterFunc(keepaliveInterval*3/2, func() {
		in.Close()
		ended <- c.Wait() // it fails, because there are no such files
	})
	AwaitAlone(token)
	require.False(t, isKeepalive(pid, token), "the keepalive is there")
	require.Error(t, <-ended)
}
