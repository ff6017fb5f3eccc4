//go:build linux

package bpf

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFollowGroups: the path of a group is known when it is gone, and groups of version 1 are not
// taken for others.
func TestFollowGroups(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.NeedsBTF(t)
	g, err := FollowGroups()
	require.NoError(t, err)
	defer g.Close()
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	name := fmt.Sprint("/stapsdt-test-", os.Getpid(), strings.Repeat("x", 200))
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || !strings.HasPrefix(fields[2], "cgroup") {
			continue
		}
		path := fields[1] + name
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Logf("%s: %v", fields[1], err)
			continue
		}
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.NoError(t, os.Remove(path))
		want := ""
		if fields[2] == "cgroup2" {
			want = name
		}
		id := info.Sys().(*syscall.Stat_t).Ino
		assert.Equal(t, want, g.Path(id), "%d of %s", id, fields[1])
	}
	assert.Empty(t, g.Path(1<<60))
}
