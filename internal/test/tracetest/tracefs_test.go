//go:build linux

package tracetest

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/stretchr/testify/require"
)

func TestTracefs(t *testing.T) {
	mounts := tracefsMounts(t)
	for range 2 { // what was needed once may be needed again
		NeedTracefs(t)
		tr := Bpftrace(t, `tracepoint:syscalls:sys_enter_sync { printf("%d\n", pid); }`)
		cmd := exec.Command("sync")
		require.NoError(t, cmd.Run())
		require.Contains(t, tr.WaitLines(1, testenv.Patience), strconv.Itoa(cmd.Process.Pid))
		tr.Stop()
	}
	require.Equal(t, mounts, tracefsMounts(t))
}

// tracefsMounts returns the machine's mounts of tracefs. Of other file systems the tests of other packages mount some
// at the same time.
func tracefsMounts(t *testing.T) []string {
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	return slices.DeleteFunc(strings.Split(string(mounts), "\n"), func(mount string) bool {
		return !strings.Contains(mount, " tracefs ")
	})
}
