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
	links io.Closer // nil if nothing is
	sites int
	used  time.Time // when a process was last seen that has mapped the file
	named bool      // by the command line, so that processes are not looked at
}

// attach attaches to the probes of a file that are meant, once.
func (t *tracing) attach(f *target.File) error {
	if a := t.attached[f]; a != nil {
		a.used = time.Now()
		return nil
	}
	a := &attachment{used: time.Now(), named: t.named(f)}
	t.attached[f] = a
	byProgram, err := t.sitesOf(f)
	if err != nil {
		return err
	}
	var refused *rights.Error
	a.links, err = f.Attach(func() io.Closer {
		var links attach.Links
		links, refused = t.attachSites(f, a, byProgram)
		return links
	})
	if refused != nil {
		return refused
	}
	if err == nil { // and otherwise it is looked at again when it has been written
		t.sites += a.sites
	}
	return nil
}

// programSites are sites that have the same program.
type programSites struct {
	*ebpf.Program
	sites []sdt.Probe
}

// sitesOf returns the sites of the probes that are meant, by their programs.
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

// attachSites attaches to sites, unless that is refused.
func (t *tracing) attachSites(f *target.File, a *attachment, byProgram []programSites) (all attach.Links, refused *rights.Error) {
	for _, s := range byProgram {
		links, err := attach.Attach(s.Program, f.AttachPath(), s.sites, t.env.Kernel.Multi)
		all = append(all, links...)
		if errors.As(err, &refused) {
			return all, refused
		}
		if err == nil {
			a.sites += len(s.sites)
			continue
		}
		t.problem("%s: %v", f.Path, err)
		a.sites += len(links) // each site has its own, now that not all could be attached to at once
	}
	return all, nil
}

const (
	// forgotten is how long a file without a process stays open that nothing can map again.
	forgotten = 30 * time.Second
	// abandoned is how long any other does. While it is open, stapsdt clean leaves it.
	abandoned = 10 * time.Minute
)

// forget detaches from files that no process has had for long, and sooner from those that
// nothing can map again: they were deleted, as the images of processes that have ended are, or
// their file system is gone, as that of a container is. It detaches at once where another process
// could change the file meanwhile.
func (t *tracing) forget() {
	for _, f := range t.stale() {
		t.drop(f)
		t.finder.Forget(f)
	}
}

// stale returns the files to forget.
func (t *tracing) stale() (files []*target.File) {
	for f, a := range t.attached {
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
		if a.links != nil {
			_ = a.links.Close()
		}
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
func (t *tracing) program(f *target.File, site sdt.Probe) (*ebpf.Program, error) {
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
