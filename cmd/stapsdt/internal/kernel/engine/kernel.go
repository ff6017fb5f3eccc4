//go:build linux

package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/follow"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// BPF implements Kernel for this machine.
type BPF struct{ bpf.Kernel }

// Load loads a program.
func (b BPF) Load(p *bpf.Probe, _ *target.File, sections []*bpf.Section) (Program, error) {
	return b.Kernel.Load(p.Name, sections...)
}

// PerFile reports false: programs serve all files.
func (b BPF) PerFile(*bpf.Probe) bool { return false }

// Shape implements Kernel.
func (b BPF) Shape(_ *bpf.Probe, sections []*bpf.Section) (string, uint64) {
	return b.Kernel.Shape(sections)
}

// Attach implements Kernel. Until late has returned, the lease keeps writers waiting.
func (b BPF) Attach(
	p Program, f *target.File, sites []Site, pid int, late func(Links, error),
) (Links, error) {
	key, err := f.Answers()
	if err != nil {
		return nil, err
	}
	type attached struct {
		Links
		again *target.Again
		err   error
	}
	most := f.Room()
	patience := stall.Patience
	if !f.HasBudget() { // others do not wait for the many sites of a user's file
		patience += time.Duration(len(sites)) * time.Millisecond
	}
	a, err := stall.Within(patience, key, func() (a attached, _ error) {
		if a.again, a.err = f.Reopen(); a.err == nil {
			a.Links, a.err = AttachSites(p.(*ebpf.Program), a.again.Path, sites, pid, b.Multi, most)
		}
		return a, nil
	}, func(a attached) {
		late(a.Links, a.err)
		_ = a.again.Close()
	})
	if err != nil {
		return nil, err
	}
	_ = a.again.Close()
	return a.Links, a.err
}

// PerProcess reports whether it can attach to sites in one process.
func (b BPF) PerProcess() bool { return b.Multi }

// Everyone stands for all processes of the machine. Ended reports false, because some end all the
// time, and Left reports true, because other processes can always come.
type Everyone struct{}

func (Everyone) List() ([]int, error)          { return proc.Processes() }
func (Everyone) Has(int) bool                  { return true }
func (Everyone) Alive(pid int) bool            { return proc.Alive(pid) && proc.HasMemory(pid) }
func (Everyone) FDs() []int                    { return nil }
func (Everyone) Ended() bool                   { return false }
func (Everyone) Loaded() ([]int, func() []int) { return noneLoaded() }
func (Everyone) Left() bool                    { return true }

// noneLoaded implements Loaded for processes that do not wait for the engine.
func noneLoaded() (pids []int, proceed func() (late []int)) {
	return nil, func() []int { return nil }
}

// Pods are the processes of pods, or all processes of a machine that has pods. New processes can
// always appear.
type Pods struct {
	Everyone
	*follow.Pods
}

func (p Pods) List() ([]int, error) { return p.Pods.List() }
func (p Pods) Has(pid int) bool     { return p.Pods.Has(pid) }

// Family is the named processes and their descendants.
type Family struct{ *follow.Processes }

func (f Family) List() ([]int, error)        { return f.Processes.List(), nil }
func (Family) Alive(pid int) bool            { return proc.Alive(pid) }
func (Family) Loaded() ([]int, func() []int) { return noneLoaded() }
func (f Family) Left() bool                  { return f.Purge() }

// Launched is a command that was started, and its descendants. The run ends with the command.
type Launched struct {
	Family
	Command query.Command
}

func (l Launched) FDs() []int { return append(l.Command.FDs(), l.Family.FDs()...) }

func (l Launched) Loaded() ([]int, func() []int) { return l.Command.Loaded() }
func (l Launched) Left() bool                    { return l.Family.Left() && !l.Command.Ended() }

// Called is the processes with some names, also later ones, and their descendants.
type Called struct{ follow.Called }

func (Called) Alive(pid int) bool            { return proc.Alive(pid) }
func (Called) FDs() []int                    { return nil }
func (Called) Ended() bool                   { return false }
func (Called) Loaded() ([]int, func() []int) { return noneLoaded() }

// Left removes the processes that have ended. Others can come.
func (c Called) Left() bool {
	c.Purge()
	return true
}

// WatchProcesses is an Options.Watch for the machine's processes.
func WatchProcesses() (Watcher, error) { return proc.NewWatcher() }

// Links keep programs attached. They end with this process, even if it is killed: the kernel then
// restores the sites, and lowers the semaphores that it has raised.
type Links []io.Closer

// Close detaches. It closes the links concurrently: there can be a perf event for each site,
// and the kernel is slow to close one.
func (l Links) Close() error {
	errs := make([]error, len(l))
	var wg sync.WaitGroup
	limit := make(chan struct{}, 64)
	for i, c := range l {
		limit <- struct{}{}
		wg.Go(func() {
			errs[i] = c.Close()
			<-limit
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// AttachSites attaches a program to sites of the file at path, in the process pid, or if pid is
// 0, in all processes that map the file now or later. With multi it uses uprobe_multi, and
// otherwise one perf event for each site, which requires pid 0. If a site is wrong, the others
// are attached, each by a link of its own, and the error names it. After a refusal, a shortage,
// or the most links, no further site is tried.
func AttachSites(
	prog *ebpf.Program, path string, sites []Site, pid int, multi bool, most int,
) (Links, error) {
	executable, err := link.OpenExecutable(path)
	if err != nil {
		return nil, err
	}
	task := pid
	if multi && pid != 0 {
		task = proc.Task(pid) // its memory holds the addresses for the kernel
	}
	attach := func(sites ...Site) (link.Link, error) {
		if !multi {
			return executable.Uprobe("", prog, &link.UprobeOptions{
				Address: sites[0].Offset, RefCtrOffset: sites[0].SemaphoreOffset,
			})
		}
		opts := link.UprobeMultiOptions{PID: uint32(task)}
		for _, s := range sites {
			opts.Addresses = append(opts.Addresses, s.Offset)
			opts.RefCtrOffsets = append(opts.RefCtrOffsets, s.SemaphoreOffset)
			opts.Cookies = append(opts.Cookies, s.Cookie)
		}
		l, err := executable.UprobeMulti(nil, prog, &opts)
		if task != pid && errors.Is(err, fs.ErrNotExist) {
			err = errMainEnded
		}
		return l, err
	}
	if multi && len(sites) > 1 {
		l, err := attach(sites...)
		if err == nil {
			return Links{l}, nil
		}
		if ends(err) {
			return nil, wrap(err, sites[0], multi)
		}
	}
	var links Links
	var errs []error
	for _, s := range sites {
		if len(links) >= most {
			errs = append(errs, errMostLinks)
			break
		}
		l, err := attach(s)
		if err == nil {
			links = append(links, l)
			continue
		}
		errs = append(errs, wrap(err, s, multi))
		if ends(err) {
			break
		}
	}
	return links, errors.Join(errs...)
}

// errMostLinks is the error if the sites take more links than the user of the file may have.
var errMostLinks = errors.New("its user has used up its share of descriptors and memory: the other sites are left out")

// errMainEnded is the error from Linux 6.10 on, where only a main thread identifies a process.
var errMainEnded = errors.New("the kernel attaches to a process by its main thread, which has ended; with CAP_LEASE and a local file system, it attaches to the file instead")

// ends reports whether the other sites of a file would fail too.
func ends(err error) bool {
	return rights.IsRefusal(err) || stall.Passes(err) || errors.Is(err, errMainEnded)
}

// wrap names the capabilities that are missing if attaching was refused. By then the program is
// loaded, which takes CAP_BPF and CAP_PERFMON. Some kernels demand more for a perf event, and
// refuse it by EACCES; a seccomp filter returns EPERM.
func wrap(err error, s Site, multi bool) error {
	switch {
	case !multi && errors.Is(err, unix.EACCES):
		return rights.New("attaching to probes on this kernel", err, rights.Admin)
	case rights.IsRefusal(err):
		return rights.New("attaching to probes", err, rights.BPF, rights.Perfmon)
	case errors.Is(err, errMainEnded):
		return err
	case stall.Passes(err):
		return bpf.Refused(bpf.AttachSite, "attaching to probes", err)
	}
	what := fmt.Sprintf("the site of %s:%s at %#x cannot be traced", s.Provider, s.Name, s.Offset)
	return bpf.Refused(bpf.AttachSite, what, err)
}
