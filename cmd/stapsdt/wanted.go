//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/lease"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/program"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// wanted is a spec, with its file if it names one.
type wanted struct {
	target.Spec
	other target.Spec    // what it stands for too, or zero
	file  *target.File   // nil while it is being written
	path  string         // where it was found
	wrong os.FileInfo    // the file there that could not be taken instead, or nil
	first *program.Probe // that was found, or nil
}

// Match reports whether the spec stands for a probe.
func (w *wanted) Match(provider, probe string) bool {
	return w.Spec.Match(provider, probe) || w.other.Probe != "" && w.other.Match(provider, probe)
}

// names reports whether a spec names a probe of a file.
func (w *wanted) names(f *target.File, p sdt.Site) bool {
	return w.Match(p.Provider, p.Name) && (w.File == "" || w.file == f)
}

// in reports whether a file has what the spec names.
func (w *wanted) in(f *target.File) bool {
	return slices.ContainsFunc(f.Probes, func(p sdt.Site) bool { return w.Match(p.Provider, p.Name) })
}

// openFiles opens the files that the command line names. Each must have what it names.
func (t *tracing) openFiles() error {
	for i := range t.specs {
		spec := &t.specs[i]
		if spec.File == "" {
			continue
		}
		f, err := t.finder.Open(spec.File)
		for errors.Is(err, lease.ErrWritten) {
			time.Sleep(20 * time.Millisecond)
			f, err = t.finder.Open(spec.File)
		}
		if err != nil {
			if errors.Is(err, sdt.ErrNoProbes) {
				return fmt.Errorf("%w; if it is a program that loads its probes at run time, use -p or -a", err)
			}
			return err
		}
		spec.file, spec.path = f, f.Path
		if !t.everywhere(f) {
			t.warn("%s: nothing keeps others from changing it while it is traced, which takes CAP_LEASE and a local file system, so its processes are looked for", f.Path)
		}
		if !spec.in(f) {
			return fmt.Errorf("%w: %s has no %s:%s", errNothing, spec.File, spec.Provider, spec.Probe)
		}
	}
	return nil
}

// reopen opens the files of the command line whose paths lead to other ones by now, and reports
// whether there are any. What processes have of the old ones is traced as before.
func (t *tracing) reopen() (fresh bool) {
	for i := range t.specs {
		spec := &t.specs[i]
		if spec.File == "" {
			continue
		}
		now, err := os.Stat(spec.path)
		if err != nil || spec.file != nil && spec.file.Is(now) || spec.wrong != nil && sameContent(now, spec.wrong) {
			continue
		}
		f, err := t.finder.Open(spec.path)
		switch {
		case err == nil:
			spec.file, spec.wrong, fresh = f, nil, true
			if !spec.in(f) {
				t.problem("%s was replaced, and has no %s:%s now", spec.path, spec.Provider, spec.Probe)
			}
		case !errors.Is(err, lease.ErrWritten) && time.Since(now.ModTime()) > interval:
			if later, statErr := os.Stat(spec.path); statErr != nil || !sameContent(later, now) {
				continue // what was read was not all of it
			}
			spec.wrong = now
			t.problem("another file was found: %v", err)
		}
	}
	return fresh
}

// sameContent reports whether it is the same file, and has not been written.
func sameContent(now, was os.FileInfo) bool {
	return os.SameFile(now, was) && now.Size() == was.Size() && now.ModTime().Equal(was.ModTime())
}

// wanted names the specs that have no probe, and is "" if each has one.
func (t *tracing) wanted() string {
	var all []string
	for _, spec := range t.specs {
		if spec.first == nil {
			all = append(all, spec.String())
		}
	}
	return strings.Join(all, " or ")
}

// nothing says that the processes have no probe that is meant.
func (t *tracing) nothing() error {
	return fmt.Errorf("%w: no file of the process has %s", errNothing, t.wanted())
}

// orNothing returns err, which may say that rights are missing, or the better error that the
// processes have no probe that is meant, if they may be looked at.
func (t *tracing) orNothing(err error) error {
	var refused *rights.Error
	if !errors.As(err, &refused) || t.where.all || slices.ContainsFunc(t.specs, func(w wanted) bool { return w.File != "" }) {
		return err
	}
	finder := target.NewFinder()
	defer finder.Close()
	found, scanErr := t.where.scan(finder)
	if scanErr != nil || found.refused != nil {
		return err
	}
	has := false
	for _, f := range found.files {
		has = t.find(f) || has
	}
	if has && !(t.together && t.wanted() != "") {
		return err
	}
	return t.nothing()
}

// find notes the first probe of each spec, and reports whether a file has any that is meant.
func (t *tracing) find(f *target.File) (has bool) {
	for _, p := range f.Probes {
		for i := range t.specs {
			spec := &t.specs[i]
			if !spec.names(f, p) {
				continue
			}
			has = true
			if spec.first == nil {
				spec.first = newProbe(f, p)
			}
		}
	}
	return has
}

// meant reports whether a probe of a file is to be traced.
func (t *tracing) meant(f *target.File, p sdt.Site) bool {
	return slices.ContainsFunc(t.specs, func(w wanted) bool { return w.names(f, p) })
}

// named reports whether the command line names a file, for which processes are not looked at.
func (t *tracing) named(f *target.File) bool {
	return slices.ContainsFunc(t.specs, func(w wanted) bool { return w.file == f })
}

// newProbe returns what a program knows of a site.
func newProbe(f *target.File, site sdt.Site) *program.Probe {
	p := &program.Probe{Provider: site.Provider, Name: site.Name}
	for i, delta := range f.Deltas(&site) {
		p.Args = append(p.Args, program.Arg{Arg: site.Args[i], Delta: delta})
	}
	return p
}
