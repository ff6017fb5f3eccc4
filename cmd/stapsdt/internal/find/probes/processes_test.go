//go:build linux

package probes

import (
	"os"
	"os/exec"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestGoroutinesPurge: processes that have ended leave room for others.
func TestGoroutinesPurge(t *testing.T) {
	testenv.NeedsRoot(t)
	ended := exec.Command("true")
	require.NoError(t, ended.Run())
	var g Goroutines
	require.NoError(t, g.Prepare(&bpf.Env{}))
	defer g.Close()
	gone, here := uint32(ended.Process.Pid), uint32(os.Getpid())
	for _, pid := range []uint32{gone, here} {
		g.visited[int(pid)] = nil
		require.NoError(t, g.offsets.Put(pid, uint32(152)))
	}
	g.Purge()
	var offset uint32
	assert.ErrorIs(t, g.offsets.Lookup(gone, &offset), ebpf.ErrKeyNotExist, "the process that has ended")
	assert.NoError(t, g.offsets.Lookup(here, &offset), "this process")
	assert.Len(t, g.visited, 1, "processes that are known")
}
