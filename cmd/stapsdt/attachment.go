//go:build linux

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/attach"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/cilium/ebpf"
)

// attachment is what is attached to a file.
type attachment struct {
	links attach.Links
	sites int
	used  time.Time // when a process was last seen that has mapped the file
}

// attach attaches to the probes of a file that are meant, once.
func (t *tracing) attach(f *target.File) error {
	if a := t.attached[f]; a != nil {
		a.used = time.Now()
		return nil
	}
	a := &attachment{used: time.Now()}
	t.attached[f] = a
	byProgram := map[*ebpf.Program][]sdt.Probe{}
	var order []*ebpf.Program
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
			return err
		}
		if err != nil {
			t.problem("%v; its events are not included", err)
		}
		if prog == nil {
			continue
		}
		if byProgram[prog] == nil {
			order = append(order, prog)
		}
		byProgram[prog] = append(byProgram[prog], p)
	}
	for _, prog := range order {
		links, err := attach.Attach(prog, f.AttachPath(), byProgram[prog], t.env.Kernel.Multi)
		a.links = append(a.links, links...)
		var refused *rights.Error
		if errors.As(err, &refused) {
			return refused
		}
		if err == nil {
			a.sites += len(byProgram[prog])
			continue
		}
		t.problem("%s: %v", f.Path, err)
		a.sites += len(links) // each site has its own, now that not all could be attached to at once
	}
	t.sites += a.sites
	return nil
}

const (
	// forgotten is how long a file without a process stays open that nothing can map again.
	forgotten = 30 * time.Second
	// abandoned is how long any other does. While it is open, stapsdt clean leaves it.
	abandoned = 10 * time.Minute
)

// forget detaches from files that no process has had for long, and sooner from those that
// nothing can map again: they were deleted, as the images of processes that have ended are, or
// their file system is gone, as that of a container is.
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
		if !t.named(f) && (unused > abandoned || unused > forgotten && f.Unreachable()) {
			files = append(files, f)
		}
	}
	return files
}

// drop detaches from a file.
func (t *tracing) drop(f *target.File) {
	if a := t.attached[f]; a != nil {
		_ = a.links.Close()
		t.sites -= a.sites
	}
	delete(t.attached, f)
	delete(t.has, f)
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
