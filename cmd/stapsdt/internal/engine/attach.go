//go:build linux

package engine

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stall"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Links keep programs attached. They end with this process, even if it is killed: the kernel then restores the sites, and lowers
// the semaphores that it has raised.
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

// AttachSites attaches a program to sites of the file at path, in the process pid, or if pid is 0, in
// all processes that map the file now or later. With multi it uses uprobe_multi, and otherwise one
// perf event for each site, which requires pid 0. If a site is wrong, the others are attached, and
// the error says so. After a refusal or a shortage, no further site is tried.
func AttachSites(prog *ebpf.Program, path string, sites []sdt.Site, pid int, multi bool) (Links, error) {
	executable, err := link.OpenExecutable(path)
	if err != nil {
		return nil, err
	}
	if multi {
		l, err := attachMulti(executable, prog, sites, pid)
		if err == nil || ends(err) || len(sites) == 1 {
			return closers(l), wrap(err, sites[0], multi)
		}
	}
	var links Links
	var errs []error
	for _, s := range sites {
		var l link.Link
		if multi {
			l, err = attachMulti(executable, prog, []sdt.Site{s}, pid)
		} else {
			l, err = executable.Uprobe("", prog, &link.UprobeOptions{Address: s.Offset, RefCtrOffset: s.SemaphoreOffset})
		}
		if err != nil {
			errs = append(errs, wrap(err, s, multi))
			if ends(err) {
				break
			}
			continue
		}
		links = append(links, l)
	}
	return links, errors.Join(errs...)
}

func attachMulti(executable *link.Executable, prog *ebpf.Program, sites []sdt.Site, pid int) (link.Link, error) {
	opts := link.UprobeMultiOptions{PID: uint32(pid)}
	for _, s := range sites {
		opts.Addresses = append(opts.Addresses, s.Offset)
		opts.RefCtrOffsets = append(opts.RefCtrOffsets, s.SemaphoreOffset)
	}
	return executable.UprobeMulti(nil, prog, &opts)
}

func closers(l link.Link) Links {
	if l == nil {
		return nil
	}
	return Links{l}
}

// ends reports whether the other sites of a file would fail too.
func ends(err error) bool { return isRefusal(err) || stall.Passes(err) }

func isRefusal(err error) bool { return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) }

// wrap names the capabilities that are missing if attaching was refused. By then the program is
// loaded, which takes CAP_BPF and CAP_PERFMON. Some kernels demand more for a perf event, and
// refuse it by EACCES; a seccomp filter returns EPERM.
func wrap(err error, s sdt.Site, multi bool) error {
	switch {
	case err == nil:
		return nil
	case !multi && errors.Is(err, unix.EACCES):
		return rights.New("attaching to probes on this kernel", err, rights.Admin)
	case isRefusal(err):
		return rights.New("attaching to probes", err, rights.BPF, rights.Perfmon)
	case stall.Passes(err):
		return fmt.Errorf("attaching to probes: %w", err)
	}
	return fmt.Errorf("the site of %s:%s at %#x cannot be traced: %w", s.Provider, s.Name, s.Offset, err)
}
