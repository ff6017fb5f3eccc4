package testenv

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMemoryGroup: a limit of the group above kills a process, which each group notes as it says.
func TestMemoryGroup(t *testing.T) {
	const limit = 8 << 20
	above := NeedsMemoryGroup(t, fmt.Sprintf("testenv-%x", rand.Uint32()))
	group := above.Add(t, "below")
	above.SetLimit(t, limit)
	take := func(program string) error {
		return exec.Command("sh", "-c", `echo 0 >"$0" && exec `+program, group.Procs()).Run()
	}
	require.NoError(t, take("head -c 4M /dev/zero | tail -n 1 | wc -c"))
	require.Greater(t, above.Peak(t), int64(4<<20))
	require.Less(t, above.Peak(t), int64(limit))
	require.Zero(t, group.Killed(t))
	var exit *exec.ExitError
	require.ErrorAs(t, take("tail -n 1 /dev/zero"), &exit)
	require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
	require.Equal(t, 1, group.Killed(t))
	require.Zero(t, above.Killed(t))
	require.InDelta(t, limit, above.Peak(t), limit/8)
	require.Less(t, above.Usage(t), above.Peak(t))
}

// TestMemoryRoot: what counts memory is found in either version, and in a machine that has both.
func TestMemoryRoot(t *testing.T) {
	unified := t.TempDir()
	mounts := "cgroup2 " + unified + " cgroup2 rw 0 0\n"
	write := func(controllers string) {
		require.NoError(t, os.WriteFile(unified+"/cgroup.controllers", []byte(controllers+"\n"), 0o600))
	}
	write("")
	require.Nil(t, memoryRoot(mounts))
	require.Equal(t, &MemoryGroup{Directory: "/m"}, memoryRoot("cgroup /c cgroup rw,cpu 0 0\ncgroup /m cgroup rw,memory 0 0\n"+mounts))
	write("cpu memory pids")
	require.Equal(t, &MemoryGroup{Directory: unified, Unified: true}, memoryRoot(mounts))
}
