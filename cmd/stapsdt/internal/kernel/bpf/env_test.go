//go:build linux

package bpf

import (
	"fmt"
	"os"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestRefusesPID: the errors are those of both kinds of kernels, as package link wraps them, and this kernel gives the one of its version.
func TestRefusesPID(t *testing.T) {
	require.True(t, refusesPID(fmt.Errorf("%w (invalid pid?)", unix.EINVAL)))
	require.False(t, refusesPID(fmt.Errorf("%w (specified pid not found?)", os.ErrNotExist)))

	testenv.NeedsRoot(t)
	var name unix.Utsname
	require.NoError(t, unix.Uname(&name))
	var major, minor int
	_, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor)
	require.NoError(t, err)
	if major > 6 || major == 6 && minor >= 10 {
		exists, ofProcesses, err := detectMulti()
		require.NoError(t, err)
		require.True(t, exists)
		require.True(t, ofProcesses)
	}
}
