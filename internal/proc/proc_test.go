//go:build linux

package proc

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("content"), 0o600))
	require.Equal(t, "content", string(Read(file, 100)))
	require.Equal(t, "cont", string(Read(file, 4)))
	require.Empty(t, Read(file+".none", 100))
	require.Empty(t, Read(filepath.Dir(file), 100))
	require.Contains(t, string(Read("/proc/self/status", 16<<10)), "\nSeccomp:\t")
}
