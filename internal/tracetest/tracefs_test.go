//go:build linux

package tracetest

import (
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTracefs(t *testing.T) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	for range 2 { // what was needed once may be needed again
		NeedTracefs(t)
		tr := Bpftrace(t, `tracepoint:syscalls:sys_enter_sync { printf("%d\n", pid); }`)
		cmd := exec.Command("sync")
		require.NoError(t, cmd.Run())
		require.Contains(t, tr.WaitLines(1, patience), strconv.Itoa(cmd.Process.Pid))
		tr.Stop()
	}
	after, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	require.Equal(t, string(mounts), string(after))
}
