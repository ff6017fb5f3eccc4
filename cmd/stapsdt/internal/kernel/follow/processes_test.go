//go:build linux

package follow

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

// TestPollForks: where the kernel does not follow forks, children are found, and the reason is reported once.
func TestPollForks(t *testing.T) {
	testenv.NeedsRoot(t)
	var reported []error
	p, err := Follow([]int{os.Getpid()}, nil, func(err error) { reported = append(reported, err) })
	require.NoError(t, err)
	defer p.Close()
	p.Detach()
	p.poll = bpf.ErrLockdown
	require.True(t, p.Purge())
	require.Empty(t, reported, "there is no child that the set lacks")
	for range 2 {
		child := exec.Command("sleep", "60")
		require.NoError(t, child.Start())
		defer child.Wait()
		defer child.Process.Kill()
		require.False(t, p.Has(child.Process.Pid))
		require.True(t, p.Purge())
		require.True(t, p.Has(child.Process.Pid))
		require.Len(t, reported, 1)
		require.ErrorIs(t, reported[0], bpf.ErrLockdown)
	}
}

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
