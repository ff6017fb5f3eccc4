//go:build linux

package probes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/lease"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/internal/nearest"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// Selector selects probes of files.
type Selector struct {
	Specs []*Spec
	// Starts reports whether the end of an operation needs the start, which is then selected too.
	// It is nil if no end does.
	Starts func(f *target.File, start, end *sdt.Site) bool

	seen bool // whether a file with probes was seen
	// last is the file for which starts were last determined: the start of each end that needs it,
	// and of itself, by PROVIDER:PROBE.
	last   *target.File
	starts map[string]*sdt.Site
}

// Spec is a spec, with its file if it names one.
type Spec struct {
	spec.Choice
	// First is the first probe that was found, or nil.
	First *First

	near  *nearest.Name // the nearest name among the probes that were not selected
	file  *target.File  // nil while it is being written
	path  string        // where the file was found, or is waited for
	waits bool          // whether there is no file with a selected probe yet
	wrong os.FileInfo   // a file at path that is not the one, or nil
}

// First is a site of a file, with the names and types of its arguments. The file may be closed.
type First struct {
	*target.File
	Site sdt.Site
}

// NewSelector returns the selector of the probes that specs select.
func NewSelector(specs []spec.Choice) *Selector {
	s := &Selector{}
	for _, c := range specs {
		near := nearest.To(c.Provider + ":" + c.Probe)
		s.Specs = append(s.Specs, &Spec{Choice: c, near: near})
	}
	return s
}

// FunctionSpecs returns the specs of functions.
func (s *Selector) FunctionSpecs() (specs []spec.Spec) {
	for _, of := range s.Specs {
		for _, one := range []spec.Spec{of.Spec, of.Other} {
			if one.Functions {
				specs = append(specs, one)
			}
			if one.Returns && s.Starts != nil {
				specs = append(specs, one.OfCalls())
			}
		}
	}
	return specs
}

// In limits the functions that specs select to files whose name matches a pattern: see spec.Spec.
func (s *Selector) In(executable string) {
	for _, of := range s.Specs {
		of.Spec.Executable, of.Other.Executable = executable, executable
	}
}

// selects reports whether the spec selects a site of a file.
func (s *Spec) selects(f *target.File, site *sdt.Site) bool {
	if s.File != "" && s.file != f {
		return false
	}
	return f.Selects(s.Spec, site) || !s.Other.IsZero() && f.Selects(s.Other, site)
}

// in reports whether a file has a site that the spec selects.
func (s *Spec) in(f *target.File) bool {
	return slices.ContainsFunc(f.Probes, func(p sdt.Site) bool { return s.selects(f, &p) })
}

// Selects reports whether a site of a file is selected.
func (s *Selector) Selects(f *target.File, site *sdt.Site) bool { return s.Order(f, site) >= 0 }

// SelectsProvider reports whether a spec that names no file selects probes of a provider.
func (s *Selector) SelectsProvider(provider string) bool {
	return slices.ContainsFunc(s.Specs, func(one *Spec) bool {
		return one.File == "" && one.MatchProvider(provider)
	})
}

// Names reports whether a spec selects a site of a file.
func (s *Selector) Names(f *target.File, site *sdt.Site) bool { return s.index(f, site) >= 0 }

// Matches reports whether a spec matches a probe, in whatever file.
func (s *Selector) Matches(provider, probe string) bool {
	return slices.ContainsFunc(s.Specs, func(one *Spec) bool { return one.Match(provider, probe) })
}

// index returns the index of the first spec that selects a site of a file, or -1 if none does.
func (s *Selector) index(f *target.File, site *sdt.Site) int {
	return slices.IndexFunc(s.Specs, func(spec *Spec) bool { return spec.selects(f, site) })
}

// Order returns the place of a selected site of a file, or -1 if it is not selected: starts that
// only the ends need come first, and then those of the first spec.
func (s *Selector) Order(f *target.File, site *sdt.Site) int {
	if start := s.Start(f, site); start != nil && nameOf(start) == nameOf(site) {
		return 0
	}
	if i := s.index(f, site); i >= 0 {
		return 1 + i
	}
	return -1
}

// Start returns the start that a site of a file needs: that of the operation that it ends, or
// itself if an end needs it. It returns nil if there is none.
func (s *Selector) Start(f *target.File, site *sdt.Site) *sdt.Site {
	if s.Starts == nil {
		return nil
	}
	if s.last != f {
		s.last, s.starts = f, s.startsOf(f)
	}
	return s.starts[nameOf(site)]
}

func nameOf(site *sdt.Site) string { return site.Provider + ":" + site.Name }

// startsOf returns what Start returns for the sites of a file, by their names.
func (s *Selector) startsOf(f *target.File) map[string]*sdt.Site {
	starts := map[string]*sdt.Site{}
	ends := map[string][]*sdt.Site{} // by operation
	of := func(site *sdt.Site) (operation string, isStart bool) {
		name, isStart := spec.OperationOf(site.Provider, site.Name)
		return site.Provider + ":" + name, isStart && name != ""
	}
	seen := map[string]bool{}
	for i := range f.Probes {
		end := &f.Probes[i]
		operation, isStart := of(end)
		if !isStart && !seen[nameOf(end)] && s.Names(f, end) {
			seen[nameOf(end)] = true
			ends[operation] = append(ends[operation], end)
		}
	}
	for i := range f.Probes {
		start := &f.Probes[i]
		operation, isStart := of(start)
		if !isStart || starts[nameOf(start)] != nil {
			continue
		}
		for _, end := range ends[operation] {
			if s.Starts(f, start, end) {
				starts[nameOf(start)], starts[nameOf(end)] = start, start
			}
		}
	}
	return starts
}

// Find reports whether a site of a file is selected, and notes the first probe of each spec.
func (s *Selector) Find(f *target.File) (has bool) {
	s.seen = s.seen || len(f.Probes) > 0
	for i := range f.Probes {
		for _, spec := range s.Specs {
			if !spec.selects(f, &f.Probes[i]) {
				if spec.First == nil {
					spec.near.See(f.Probes[i].Provider + ":" + f.Probes[i].Name)
				}
				continue
			}
			has = true
			if spec.First == nil {
				f.Deltas(&f.Probes[i]) // while the file is open, which First may outlive
				spec.First = &First{f, f.Probes[i]}
			}
		}
	}
	return has
}

// Nearest returns a suggestion to append to the error for specs that no process has, or "": a
// similar name or, if the processes have no probes, the functions of a Go program.
func (s *Selector) Nearest(pids ...int) string {
	if !s.seen && len(s.FunctionSpecs()) == 0 {
		return Functions(pids)
	}
	for _, spec := range s.Specs {
		if hint := spec.near.Hint(); spec.First == nil && hint != "" {
			return hint
		}
	}
	return ""
}

// Functions returns a suggestion to append to the error for processes without probes: to trace the
// functions of a Go program, or that a process has only just started. It may return "".
func Functions(pids []int) string {
	for _, pid := range pids {
		if target.IsGo(pid) {
			const format = "; process %d runs a Go program, whose functions can be traced like probes: see stapsdt list -p %d 'go:main.*'"
			return fmt.Sprintf(format, pid, pid)
		}
	}
	for _, pid := range pids {
		if age, ok := proc.Age(pid); ok && age < young {
			return early(pid, age)
		}
	}
	return ""
}

// young is the age up to which a process may not have loaded its probes. An interpreter loads its
// modules for seconds on a busy machine.
const young = 15 * time.Second

// early returns the suggestion for a young process without probes.
func early(pid int, age time.Duration) string {
	const format = "; process %d started %v ago, and may not have loaded its probes yet"
	return fmt.Sprintf(format, pid, age.Round(time.Millisecond))
}

// Missing returns the specs for which no probe was found, joined by "or", or "" if there are none.
func (s *Selector) Missing() string {
	return s.missing(func(*Spec) bool { return true })
}

// MissingProbes is Missing without the specs of functions.
func (s *Selector) MissingProbes() string {
	return s.missing(func(spec *Spec) bool { return !spec.Functions })
}

func (s *Selector) missing(counts func(*Spec) bool) string {
	var all []*Spec
	for _, spec := range s.Specs {
		if spec.First == nil && counts(spec) {
			all = append(all, spec)
		}
	}
	return spec.Join(all, " or ")
}

// NamesFiles reports whether a spec names a file.
func (s *Selector) NamesFiles() bool {
	return slices.ContainsFunc(s.Specs, func(spec *Spec) bool { return spec.File != "" })
}

// Files returns the open files that the specs name.
func (s *Selector) Files() (files []*target.File) {
	for _, spec := range s.Specs {
		if spec.file != nil {
			files = append(files, spec.file)
		}
	}
	return files
}

// Closed reports whether a file that a spec names is not open, because it is being written.
func (s *Selector) Closed() bool {
	return slices.ContainsFunc(s.Specs, func(spec *Spec) bool {
		return spec.File != "" && spec.file == nil && !spec.waits
	})
}

// Drop notes that a file was closed. Reopen opens it again.
func (s *Selector) Drop(f *target.File) {
	if s.last == f {
		s.last, s.starts = nil, nil
	}
	for _, spec := range s.Specs {
		if spec.file == f {
			spec.file = nil
		}
	}
}

// writeRetry is the delay before a file that is being written is opened again.
const writeRetry = 20 * time.Millisecond

// opening opens a file with probes. The method Open of a *target.Finder is one.
type opening = func(path string) (*target.File, error)

// Open opens the files that the specs name. Each must have the probes that its spec names, unless
// await is set: then Reopen opens the first file that has them. It is no error either if a file has
// no function of a spec: its Finder knows the reason.
func (s *Selector) Open(open opening, await bool) error {
	for _, spec := range s.Specs {
		if spec.File == "" {
			continue
		}
		spec.path = target.Locate(spec.File)
		if err := s.open(spec, open); err != nil {
			none := errors.Is(err, query.ErrNothing) || errors.Is(err, sdt.ErrNoProbes)
			if !(none && spec.Functions) && !(await && (none || errors.Is(err, fs.ErrNotExist))) {
				return err
			}
			spec.file, spec.waits = nil, true
			spec.wrong, _ = stall.Stat(spec.path)
		}
	}
	return nil
}

// open opens the file that a spec names, and checks that it has a selected probe.
func (s *Selector) open(spec *Spec, open opening) error {
	f, err := open(spec.File)
	for errors.Is(err, lease.ErrWritten) {
		time.Sleep(writeRetry)
		f, err = open(spec.File)
	}
	if errors.Is(err, sdt.ErrNoProbes) {
		return fmt.Errorf("%w; if it is a program that loads its probes at run time, use -p or -a", err)
	}
	if err != nil {
		return err
	}
	if spec.file, spec.path = f, f.Path; !spec.in(f) {
		s.Find(f)
		return fmt.Errorf("%w: %s has no %s:%s%s", query.ErrNothing,
			spec.File, spec.Provider, spec.Probe, spec.near.Hint())
	}
	return nil
}

// minAge is the age from which a file that cannot be read is an error: a younger one may be
// incomplete.
const minAge = 250 * time.Millisecond

// Reopen opens the files whose paths lead to other files by now, and reports whether it opened any.
// problems has an error for each of them that cannot be opened, or that lacks the selected probes.
func (s *Selector) Reopen(open opening) (reopened bool, problems []error) {
	for _, spec := range s.Specs {
		if spec.File == "" {
			continue
		}
		now, err := stall.Stat(spec.path)
		if err != nil || spec.wrong != nil && SameContent(now, spec.wrong) ||
			spec.file != nil && spec.file.Is(now) && !spec.file.Copied() {
			continue
		}
		f, err := open(spec.path)
		switch {
		case err == nil:
			s.last = nil
			if spec.file = f; spec.waits && !spec.in(f) {
				spec.file, spec.wrong = nil, now
				continue
			}
			spec.wrong, spec.waits, reopened = nil, false, true
			if !spec.in(f) {
				problems = append(problems, fmt.Errorf("%s was replaced, and no longer has %s:%s", spec.path, spec.Provider, spec.Probe))
			}
		case errors.Is(err, lease.ErrWritten) || stall.Passes(err): // it is tried again
		case time.Since(now.ModTime()) > minAge:
			if later, statErr := stall.Stat(spec.path); statErr != nil || !SameContent(later, now) {
				continue // the file was still incomplete
			}
			if spec.wrong = now; !spec.waits || !errors.Is(err, sdt.ErrNoProbes) {
				problems = append(problems, fmt.Errorf("another file was found: %w", err))
			}
		}
	}
	return reopened, problems
}

// SameContent reports whether both describe the same file, and it was not written in between.
func SameContent(now, was os.FileInfo) bool {
	return os.SameFile(now, was) && now.Size() == was.Size() && now.ModTime().Equal(was.ModTime())
}
