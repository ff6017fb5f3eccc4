//go:build linux

package engine

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/pods"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/cilium/ebpf"
)

// BPF implements Kernel for this machine.
type BPF struct{ bpf.Kernel }

// Load loads a program.
func (b BPF) Load(p *bpf.Probe, sections []*bpf.Section) (Program, error) {
	prog, err := b.Kernel.Load(p.Name, sections...)
	if err != nil {
		return nil, err
	}
	return prog, nil
}

// Attach attaches a program to sites of a file. If the kernel takes too long, the error is stall.Err, and the links are closed as
// soon as it returns. Until then, the lease keeps writers waiting.
func (b BPF) Attach(p Program, f *target.File, sites []sdt.Site, pid int) (Links, error) {
	key, err := f.Answers()
	if err != nil {
		return nil, err
	}
	type attached struct {
		Links
		again *target.Again
		err   error
	}
	patience := stall.Patience + time.Duration(len(sites))*time.Millisecond
	a, err := stall.Within(patience, key, func() (a attached, _ error) {
		if a.again, a.err = f.Reopen(); a.err == nil {
			a.Links, a.err = AttachSites(p.(*ebpf.Program), a.again.Path, sites, pid, b.Multi)
		}
		return a, nil
	}, func(late attached) {
		_ = late.Links.Close()
		_ = late.again.Close()
	})
	if err != nil {
		return nil, err
	}
	_ = a.again.Close()
	return a.Links, a.err
}

// PerProcess reports whether it can attach to sites in one process.
func (b BPF) PerProcess() bool { return b.Multi }

// Everyone is all processes of the machine.
type Everyone struct{}

func (Everyone) List() ([]int, error) { return proc.Processes() }

// Has reports true.
func (Everyone) Has(int) bool { return true }

// Alive reports whether a process exists.
func (Everyone) Alive(pid int) bool { return proc.Alive(pid) }

// FDs returns none.
func (Everyone) FDs() []int { return nil }

// Ended reports false, because some end all the time.
func (Everyone) Ended() bool { return false }

// Left reports true, because there are always other processes to come.
func (Everyone) Left() bool { return true }

// Pods are the processes of pods, or all processes of a machine that has pods. New processes can always appear.
type Pods struct {
	Everyone
	*pods.Follower
}

// List returns the processes.
func (p Pods) List() ([]int, error) { return p.Follower.List() }

// Has reports whether a process is one of them.
func (p Pods) Has(pid int) bool { return p.Follower.Has(pid) }

// Family is the named processes and their descendants.
type Family struct{ *probes.Processes }

// List returns the processes.
func (f Family) List() ([]int, error) { return f.Processes.List(), nil }

// Alive reports whether a process exists.
func (Family) Alive(pid int) bool { return proc.Alive(pid) }

// Left removes the processes that have ended, and reports whether any are left.
func (f Family) Left() bool { return f.Purge() }

// WatchProcesses is an Options.Watch for the machine's processes.
func WatchProcesses() (Watcher, error) { return proc.NewWatcher() }
