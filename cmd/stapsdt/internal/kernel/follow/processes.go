//go:build linux

// Package follow keeps in BPF maps what a run follows: its processes, its pods, the goroutines of
// Go programs, and crashes.
package follow

import (
	"fmt"
	"os"
	"slices"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Processes are the processes that a command names, and their descendants.
type Processes struct {
	// Set has their PIDs, and the IDs of new threads.
	Set  *ebpf.Map
	prog *ebpf.Program
	ends proc.Exits // of the named processes
	link link.Link
	// poll is the error that keeps the kernel from following forks, so that children are looked for
	// in /proc, or nil.
	poll    error
	problem func(error)
	exits   []proc.Exit // of the named processes, so far
	// exited means that the last Purge found no process.
	exited bool
}

// maxProcesses is the size of the set.
const maxProcesses = 16384

// Follow returns the processes with some PIDs, and those that they have forked. The kernel adds the
// processes that they fork from now on. If it cannot, Purge looks for them in /proc, and calls
// problem with the reason when it finds the first one.
func Follow(pids []int, ns *bpf.Namespace, problem func(error)) (p *Processes, err error) {
	p = &Processes{problem: problem}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	p.Set, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "processes", Type: ebpf.Hash, KeySize: 4, ValueSize: 1, MaxEntries: maxProcesses,
	})
	if err != nil {
		return p, bpf.MapError(err)
	}
	if err := p.add(pids); err != nil {
		return p, err
	}
	for _, pid := range pids {
		p.ends.Watch(pid) // if that fails, the end is noticed later
	}
	p.prog, p.link, p.poll = bpf.FollowForks(p.Set, ns)
	// The kernel adds what a process in the set forks: a process that was forked while the last
	// ones were added is found in the next round.
	for known := 0; ; {
		all := family(pids)
		if err := p.add(all); err != nil {
			return p, err
		}
		if len(all) <= known {
			return p, nil
		}
		known = len(all)
	}
}

// Called are the processes with some names, also later ones, and what they have forked.
type Called struct {
	*Processes
	Names []string
}

// List returns the processes, and adds those that are new.
func (c Called) List() ([]int, error) {
	all, err := proc.Processes()
	for _, pid := range all {
		c.Has(pid)
	}
	return c.Processes.List(), err
}

// Has reports whether a process is one of them, and adds it if it is new.
func (c Called) Has(pid int) bool {
	if c.Processes.Has(pid) {
		return true
	}
	if !proc.IsCalled(pid, c.Names) {
		return false
	}
	_ = c.add(family([]int{pid})) // it may be full
	return c.Processes.Has(pid)
}

// family returns processes and their descendants, but not this one, which is a descendant of the
// shell that started it.
func family(pids []int) []int {
	return slices.DeleteFunc(proc.Family(pids), func(pid int) bool { return pid == os.Getpid() })
}

// add adds processes.
func (p *Processes) add(pids []int) error {
	for _, pid := range pids {
		if err := p.Set.Put(uint32(pid), uint8(1)); err != nil {
			return err
		}
	}
	return nil
}

// List returns the PIDs of the processes in the set.
func (p *Processes) List() []int {
	return slices.DeleteFunc(p.ids(), func(id int) bool { return !proc.IsProcess(id) })
}

// ids returns the members of the set.
func (p *Processes) ids() (all []int) {
	var id uint32
	var value uint8
	for entries := p.Set.Iterate(); entries.Next(&id, &value); {
		all = append(all, int(id))
	}
	return all
}

// Has reports whether a process is in the set.
func (p *Processes) Has(pid int) bool {
	key, value := uint32(pid), uint8(0)
	attr := struct {
		fd, _      uint32
		key, value unsafe.Pointer
		flags      uint64
	}{fd: uint32(p.Set.FD()), key: unsafe.Pointer(&key), value: unsafe.Pointer(&value)}
	// SAFETY: the kernel reads attr and key, and writes value, during the call. It does not block,
	// and bypasses the runtime, whose monitor would wake up for each process that starts somewhere.
	_, _, errno := unix.RawSyscall(unix.SYS_BPF, unix.BPF_MAP_LOOKUP_ELEM,
		uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	return errno == 0
}

// Purge removes processes that have exited and the IDs of threads, and reports whether a process
// is left.
func (p *Processes) Purge() (left bool) {
	if p.poll != nil {
		p.addChildren()
	}
	for _, id := range p.ids() {
		if proc.IsProcess(id) && proc.Alive(id) {
			left = true
		} else {
			_ = p.Set.Delete(uint32(id))
		}
	}
	p.exited = !left
	return left
}

// Exited reports whether the last Purge found no process.
func (p *Processes) Exited() bool { return p.exited }

// FDs returns descriptors that are readable when one of the named processes has ended.
func (p *Processes) FDs() []int { return p.ends.FDs() }

// Ended reports whether one of the named processes has ended since the last call.
func (p *Processes) Ended() bool {
	ended := p.ends.Ended()
	p.exits = append(p.exits, ended...)
	return len(ended) > 0
}

// Exits returns the ends of the named processes that Ended has found.
func (p *Processes) Exits() []proc.Exit { return p.exits }

// addChildren adds the processes whose parents are in the set, and their children.
func (p *Processes) addChildren() {
	all := family(p.List())
	isNew := func(pid int) bool { return !p.Has(pid) }
	if i := slices.IndexFunc(all, isNew); i >= 0 && p.problem != nil {
		p.problem(fmt.Errorf("process %d was forked: its first events may be missing: %w", all[i], p.poll))
		p.problem = nil // it is the same for others
	}
	_ = p.add(all)
}

// Detach stops following forks.
func (p *Processes) Detach() {
	if p.link != nil {
		p.link.Close()
		p.link = nil
	}
}

// Close releases the set.
func (p *Processes) Close() {
	p.Detach()
	p.ends.Close()
	p.prog.Close()
	p.Set.Close()
}
