//go:build linux

package live

import (
	"os"
	"os/exec"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/socket"

	"github.com/stretchr/testify/require"
)

// TestFamily: descendants are found and stay in the family when their parent has ended, and a process that has the PID of
// another one is a stranger with all of its children.
func TestFamily(t *testing.T) {
	child := exec.Command("sleep", "60")
	require.NoError(t, child.Start())
	defer func() { _, _ = child.Process.Kill(), child.Wait() }()
	own, pid := os.Getpid(), child.Process.Pid
	f := family{own: socket.Started(own)}
	require.Contains(t, f.remember(), pid)
	f[own]--
	require.Equal(t, []int{pid}, f.remember(), "it was remembered, and the other is a stranger")
	f[pid]--
	require.Empty(t, f.remember())
	require.Empty(t, f)
	require.Empty(t, f.listening())
}

// TestStranger: a run does not wait for a stranger with the PID of a process that has ended.
func TestStranger(t *testing.T) {
	f := &Feed{}
	for _, c := range []struct {
		later uint64
		left  bool
	}{{0, true}, {1, false}} {
		f.named = family{os.Getpid(): socket.Started(os.Getpid()) - c.later}
		require.Equal(t, c.left, f.isNamedAlive())
	}
}
