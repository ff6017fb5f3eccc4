//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/attach"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/cilium/ebpf"
)

// attachment is what is attached to a file.
type attachment struct {
	byProgram []programSites
	// links are by the process that they are for, which is 0 for all. They are for one process
	// where the file can be changed meanwhile: otherwise the kernel would put the breakpoints of
	// the old content into each process that maps the new one.
	links map[int]io.Closer
	sites int
	used  time.Time // when a process was last seen that has mapped the file
	named bool      // by the command line, so that processes are not looked at
}

// attach attaches to the probes of a file that are meant, once.
func (t *tracing) attach(f *target.File, uses []use) (err error) {
	a := t.attached[f]
	if a == nil {
		a = &attachment{links: map[int]io.Closer{}, named: t.named(f)}
		t.attached[f] = a
		if a.byProgram, err = t.sitesOf(f); err != nil {
			return err
		}
	}
	a.used = time.Now()
	if t.everywhere(f) {
		uses = []use{{}}
	}
	for _, u := range uses {
		if a.links[u.pid] != nil {
			continue
		}
		if err := t.attachTo(f, a, u.pid); err != nil {
			return err
		}
	}
	return nil
}

// everywhere reports whether to attach to a file in all processes. Before uprobe_multi there is no
// other way for all threads of one.
func (t *tracing) everywhere(f *target.File) bool { return f.Guarded() || !t.env.Kernel.Multi }

// attachTo attaches to a file in one process, or for 0 in all.
func (t *tracing) attachTo(f *target.File, a *attachment, pid int) error {
	var refused *rights.Error
	sites := 0
	links, err := f.Attach(func() io.Closer {
		var links attach.Links
		links, sites, refused = t.attachSites(f, a.byProgram, pid)
		return links
	})
	if err != nil {
		return nil // it is looked at again when it has been written
	}
	a.links[pid] = links
	t.sites += max(sites-a.sites, 0)
	a.sites = max(sites, a.sites)
	if refused != nil {
		return refused
	}
	return nil
}

// programSites are sites that have the same program.
type programSites struct {
	*ebpf.Program
	sites []sdt.Site
}

// sitesOf returns the sites of the selected probes, by their programs.
func (t *tracing) sitesOf(f *target.File) (all []programSites, err error) {
	problem := f.Problem != nil
	for _, p := range f.Probes {
		if !t.meant(f, p) {
			continue
		}
		if problem {
			t.problem("%s: %v", f.Path, f.Problem)
			problem = false
		}
		prog, err := t.program(f, p)
		if err != nil && !t.running {
			return nil, err
		}
		if err != nil {
			t.problem("%v; its events are not included", err)
		}
		if prog == nil {
			continue
		}
		i := slices.IndexFunc(all, func(s programSites) bool { return s.Program == prog })
		if i < 0 {
			i, all = len(all), append(all, programSites{Program: prog})
		}
		all[i].sites = append(all[i].sites, p)
	}
	return all, nil
}

// attachSites attaches to sites, and returns to how many, unless that is refused.
func (t *tracing) attachSites(f *target.File, byProgram []programSites, pid int) (all attach.Links, sites int, refused *rights.Error) {
	for _, s := range byProgram {
		links, err := attach.Attach(s.Program, f.AttachPath(), s.sites, pid, t.env.Kernel.Multi)
		all = append(all, links...)
		if errors.As(err, &refused) {
			return all, sites, refused
		}
		if err == nil {
			sites += len(s.sites)
			continue
		}
		if pid != 0 && !target.Alive(pid) {
			break
		}
		t.problem("%s: %v", f.Path, err)
		sites += len(links) // each site has its own, now that not all could be attached to at once
	}
	return all, sites, nil
}

const (
	// forgotten is how long a file without a process stays open that nothing can map again.
	forgotten = 30 * time.Second
	// abandoned is how long any other does. While it is open, stapsdt clean leaves it.
	abandoned = 10 * time.Minute
)

// forget detaches from files that no process has had for long, and sooner from those that
// nothing can map again: they were deleted, as the images of processes that have ended are, or
// their file system is gone, as that of a container is. It detaches at once from what others
// could change meanwhile.
func (t *tracing) forget() {
	for _, f := range t.stale() {
		t.drop(f)
		t.finder.Forget(f)
	}
}

// stale returns the files to forget, and detaches from processes that have ended.
func (t *tracing) stale() (files []*target.File) {
	for f, a := range t.attached {
		for pid, links := range a.links {
			if pid != 0 && !target.Alive(pid) {
				_ = links.Close()
				delete(a.links, pid)
			}
		}
		unused := time.Since(a.used)
		if !a.named && (unused > abandoned || unused > forgotten && f.Unreachable() || !f.Guarded() && a.used.Before(t.scanned)) {
			files = append(files, f)
		}
	}
	return files
}

// drop detaches from a file.
func (t *tracing) drop(f *target.File) {
	if a := t.attached[f]; a != nil {
		_ = a.detach().Close()
		t.sites -= a.sites
	}
	delete(t.attached, f)
	delete(t.has, f)
	for i := range t.specs {
		if t.specs[i].file == f {
			t.specs[i].file = nil
		}
	}
}

// detach returns what was attached, for the caller to close.
func (a *attachment) detach() (links attach.Links) {
	for _, l := range a.links {
		links = append(links, l)
	}
	clear(a.links)
	return links
}

// changed returns the files that are not what they were when their probes were read.
func (t *tracing) changed() (files []*target.File) {
	for f := range t.has {
		if f.Changed() {
			files = append(files, f)
		}
	}
	return files
}

// renew attaches again to files that have changed.
func (t *tracing) renew() error {
	changed := t.changed()
	for _, f := range changed {
		t.drop(f)
		t.finder.Forget(f)
	}
	if t.reopen() {
		if err := t.attachAll(&scan{}); err != nil {
			return err
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return t.scan(false)
}

// program returns the program of a probe, which is nil after an error.
func (t *tracing) program(f *target.File, site sdt.Site) (*ebpf.Program, error) {
	p := newProbe(f, site)
	key := p.Key()
	if prog, ok := t.programs[key]; ok {
		return prog, nil
	}
	prog, err := t.load(p, uint32(len(t.probes)))
	if err != nil {
		t.programs[key] = nil // it is said once
		return nil, fmt.Errorf("%v: %w", p, err)
	}
	t.probes = append(t.probes, p)
	t.programs[key] = prog
	return prog, nil
}

// problem warns of what keeps events from being seen.
func (t *tracing) problem(format string, args ...any) {
	t.problems.Add(1)
	text := fmt.Sprintf(format, args...)
	if t.rule != "" {
		text = t.rule + ": " + text
	}
	t.warn("%s", text)
}
