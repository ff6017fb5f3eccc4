//go:build linux

package follow

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Crashes learns which processes are ended by a signal of proc.CrashSignals.
type Crashes struct {
	found *ebpf.Map // the signals, by PID
	prog  *ebpf.Program
	link  link.Link
}

// maxCrashes is the number of processes whose crashes are kept until Take.
const maxCrashes = 1024

// NewCrashes begins to look at the processes of a set, or at all if it is nil.
func NewCrashes(processes *ebpf.Map, ns *bpf.Namespace) (c *Crashes, err error) {
	c = &Crashes{}
	c.found, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "crashes", Type: ebpf.LRUHash, KeySize: 4, ValueSize: 8, MaxEntries: maxCrashes,
	})
	if err != nil {
		return nil, bpf.MapError(err)
	}
	c.prog, c.link, err = bpf.FollowSignals(c.found, processes, ns, proc.CrashSignals)
	if err != nil {
		c.found.Close()
		return nil, err
	}
	return c, nil
}

// Take returns the crashes since the last call.
func (c *Crashes) Take() (all []proc.Exit) {
	var pid uint32
	var signal uint64
	for entries := c.found.Iterate(); entries.Next(&pid, &signal); {
		all = append(all, proc.Exit{PID: int(pid), Status: unix.WaitStatus(signal)})
	}
	for _, exit := range all {
		_ = c.found.Delete(uint32(exit.PID))
	}
	return all
}

// Close stops looking.
func (c *Crashes) Close() {
	c.link.Close()
	c.prog.Close()
	c.found.Close()
}
