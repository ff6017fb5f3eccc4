//go:build linux

package follow

import (
	"errors"
	"os"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"

	"github.com/cilium/ebpf"
)

// Goroutines are the processes whose goroutines can be told apart.
type Goroutines struct {
	offsets *ebpf.Map
	// visited has the program that each process ran when it was looked at.
	visited map[int]os.FileInfo
}

// Prepare sets the environment's map of goroutine offsets. Find adds processes to the map.
func (g *Goroutines) Prepare(env *bpf.Env) error {
	if g.offsets == nil {
		var err error
		if g.offsets, err = bpf.NewGoroutines(); err != nil {
			return bpf.MapError(err)
		}
		g.visited = map[int]os.FileInfo{}
	}
	env.Goroutines = g.offsets
	return nil
}

// Close releases the map.
func (g *Goroutines) Close() { g.offsets.Close() }

// Purge removes the processes that have ended, so that there is room for others.
func (g *Goroutines) Purge() {
	for pid := range g.visited {
		if !proc.Alive(pid) {
			delete(g.visited, pid)
			_ = g.offsets.Delete(uint32(pid)) // there may be no offset
		}
	}
}

// Find finds the offset of the goroutine IDs in a process. It returns an error if the offset is
// unknown, once for each program that a process runs.
func (g *Goroutines) Find(env *bpf.Env, pid int) error {
	if err := g.Prepare(env); err != nil {
		return err
	}
	exe, err := target.StatExe(pid)
	if err == nil && g.visited[pid] != nil && os.SameFile(exe, g.visited[pid]) {
		return nil
	}
	offset, err := target.GoidOffset(pid, env.Debug)
	if errors.Is(err, proc.ErrNoProcess) {
		return nil
	}
	if exe != nil && !stall.Passes(err) {
		g.visited[pid] = exe
	}
	if err != nil {
		_ = g.offsets.Delete(uint32(pid)) // the offset may be of an earlier program
		return err
	}
	return g.offsets.Put(uint32(pid), offset)
}
