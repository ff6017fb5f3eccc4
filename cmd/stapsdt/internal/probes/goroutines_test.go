//go:build linux

package probes

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/cilium/ebpf"
)

// TestGoroutinesForget: processes that have ended leave room for others.
func TestGoroutinesForget(t *testing.T) {
	testenv.NeedsRoot(t)
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	var g Goroutines
	if err := g.open(); err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	gone, here := uint32(ended.Process.Pid), uint32(os.Getpid())
	for _, pid := range []uint32{gone, here} {
		g.visited[int(pid)] = nil
		if err := g.offsets.Put(pid, uint32(152)); err != nil {
			t.Fatal(err)
		}
	}
	g.Forget()
	var offset uint32
	if err := g.offsets.Lookup(gone, &offset); !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Errorf("the process that has ended: %v", err)
	}
	if err := g.offsets.Lookup(here, &offset); err != nil {
		t.Errorf("this process: %v", err)
	}
	if len(g.visited) != 1 {
		t.Errorf("%d processes are known", len(g.visited))
	}
}
