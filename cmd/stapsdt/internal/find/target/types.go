//go:build linux

package target

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-stapsdt/stapsdt/internal/debuginfo"
	"github.com/go-stapsdt/stapsdt/internal/elffile"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// types records which probes of a file still lack their types. Reading these is the most expensive
// part of reading a file, and any user can make it as expensive as sdt's limits permit. A tracer
// therefore reads the types only of the probes that it attaches to.
type types struct {
	read *sdt.Site // the probe whose types were read, or nil
}

// describe reads the types of a probe. For a second probe it reads the types of all: a file can
// have thousands of probes, and reading some of the types costs as much as reading all.
func (f *File) describe(p *sdt.Site) {
	if f.types == nil || f.Function(p) != nil {
		return
	}
	same := func(q *sdt.Site) bool { return q.Provider == p.Provider && q.Name == p.Name }
	switch {
	case f.types.read == nil:
		f.types.read = p
		f.readTypes(same)
	case !same(f.types.read):
		f.describeAll()
	}
}

// describeAll reads the types of all probes.
func (f *File) describeAll() {
	if f.types == nil {
		return
	}
	known := f.types.read
	f.types = nil
	f.readTypes(
		func(p *sdt.Site) bool {
			return known == nil || p.Provider != known.Provider || p.Name != known.Name
		},
	)
}

// readTypes reads the types of some probes. It writes to their Args, which copies of the sites
// share.
func (f *File) readTypes(of func(*sdt.Site) bool) {
	sites := make([]sdt.Site, 0, len(f.Probes))
	for i := range f.Probes {
		if p := &f.Probes[i]; of(p) && f.Function(p) == nil {
			sites = append(sites, *p)
		}
	}
	f.Problem = errors.Join(f.Problem, f.readTypesOf(sites))
}

func (f *File) readTypesOf(sites []sdt.Site) error {
	if !slices.ContainsFunc(sites, func(p sdt.Site) bool { return len(p.Args) > 0 }) {
		return nil
	}
	file, err := elffile.New(f.content)
	if err != nil {
		return err
	}
	if debuginfo.In(file) {
		return sdt.ReadTypes(f.content, sites)
	}
	debug, err := f.findDebug(file)
	if err != nil {
		return nil // the types of the notes are shown
	}
	defer debug.Close()
	if err := sdt.ReadTypes(debug, sites); err != nil && debug.Named {
		return fmt.Errorf("%s: %w", debug.Path, err)
	}
	return nil
}
