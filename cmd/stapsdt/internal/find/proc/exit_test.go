//go:build linux

package proc

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestExits: the end of a process is known before its parent has waited for it, and after.
func TestExits(t *testing.T) {
	for _, c := range []struct{ script, says string }{
		{"exit 0", "process has exited"},
		{"exit 3", "process has exited with status 3"},
		{"kill -TRAP $$", "process was ended by SIGTRAP"},
		{"kill -KILL $$", "process was ended by SIGKILL"},
		{"kill -40 $$", "process was ended by signal 40"},
	} {
		for _, reaped := range []bool{false, true} {
			cmd := exec.Command("sh", "-c", "read line; "+c.script)
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			var x Exits
			x.Watch(cmd.Process.Pid)
			x.Watch(cmd.Process.Pid) // which is the same
			require.Len(t, x.FDs(), 1)
			require.Empty(t, x.Ended(), "it waits for a line")
			_, err = in.Write([]byte("go\n"))
			require.NoError(t, err)
			if reaped {
				_ = cmd.Wait()
				testenv.NeedsLinux(t, 6, 15, "a pidfd that tells how its process has ended")
			} else {
				polled := []unix.PollFd{{Fd: int32(x.FDs()[0]), Events: unix.POLLIN}}
				n, err := unix.Poll(polled, int(testenv.Patience.Milliseconds()))
				require.NoError(t, err)
				require.Equal(t, 1, n)
			}
			ended := x.Ended()
			require.Len(t, ended, 1)
			says := strings.Replace(c.says, "process", "process "+strconv.Itoa(cmd.Process.Pid), 1)
			assert.Equal(t, says, ended[0].String(), "reaped: %v", reaped)
			assert.Equal(t, strings.HasSuffix(c.says, "SIGTRAP"), ended[0].Crashed())
			assert.Empty(t, x.FDs())
			assert.Empty(t, x.Ended())
			x.Close()
			if !reaped {
				_ = cmd.Wait()
			}
		}
	}
}

// TestExitsWhileReaped: the end of a process is known also if its parent waits for it at the same time.
func TestExitsWhileReaped(t *testing.T) {
	testenv.NeedsLinux(t, 6, 15, "a pidfd that tells how its process has ended")
	for range 300 {
		cmd := exec.Command("sleep", "infinity")
		require.NoError(t, cmd.Start())
		var x Exits
		x.Watch(cmd.Process.Pid)
		require.NoError(t, cmd.Process.Kill())
		reaped := make(chan error)
		go func() { reaped <- cmd.Wait() }()
		var ended []Exit
		for len(ended) == 0 {
			ended = x.Ended()
		}
		require.Error(t, <-reaped)
		require.Equal(t, "process "+strconv.Itoa(cmd.Process.Pid)+" was ended by SIGKILL", ended[0].String())
	}
}
