//go:build linux

package proc

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFamily: children and their children are found, whichever way is taken, and no other process.
func TestFamily(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sh -c 'echo; read x; exit 1' | cat; true")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = out.Read(make([]byte, 1)) // all three run
	require.NoError(t, err)
	family := Family([]int{os.Getpid()})
	require.Equal(t, os.Getpid(), family[0])
	require.GreaterOrEqual(t, len(Family([]int{cmd.Process.Pid})), 3)
	require.Subset(t, family, Family([]int{cmd.Process.Pid}))
	require.Subset(t, familyOfAll([]int{os.Getpid()}), family)
	require.NotContains(t, Family([]int{cmd.Process.Pid}), os.Getpid())
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
	require.Equal(t, []int{cmd.Process.Pid}, Family([]int{cmd.Process.Pid}), "it has ended")
}
