//go:build linux

package script

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/sdt"

	"golang.org/x/sys/unix"
)

// Options define the output.
type Options struct {
	// Texts are the names of arguments that are strings although the file does not describe them
	// as strings.
	Texts []string
}

// Run writes a program that traces probes.
func Run(to *console.Console, where query.Target, specs []spec.Choice, o Options) error {
	selector, err := probes.Select(&where, specs)
	if err != nil {
		return err
	}
	if fns := selector.FunctionSpecs(); len(fns) > 0 {
		return query.Usagef("%v selects functions, but scripts are written for probes", fns[0])
	}
	if where, err = probes.Now(&where); err != nil {
		return err
	}
	finder := target.NewFinder()
	defer finder.Close()
	sites, err := collect(to, where, finder, selector)
	if err != nil {
		return err
	}
	script := &Script{Specs: spec.Join(specs, " "), Sites: sites, Texts: o.Texts}
	script.PIDs = slices.Sorted(slices.Values(proc.Family(where.PIDs)))
	for _, name := range o.Texts {
		if !slices.ContainsFunc(sites, func(site Site) bool {
			return slices.ContainsFunc(
				script.values(&site), func(v value) bool { return v.asked == name },
			)
		}) {
			return query.Usagef("--str %s: no probe has such an argument", name)
		}
	}
	text, skipped := script.Bpftrace()
	for _, why := range skipped {
		to.Warn("%s", why)
	}
	_, err = io.WriteString(to.Out, text)
	return err
}

// collect returns the selected sites, in the order of their files and names.
func collect(
	to *console.Console, where query.Target, finder *target.Finder, selector *probes.Selector,
) (sites []Site, err error) {
	if err := selector.Open(finder.Open, false); err != nil {
		return nil, err
	}
	found := &probes.Found{}
	if where.Given() {
		if found, err = probes.LookAt(&where, finder); err != nil {
			return nil, err
		}
		for _, err := range finder.Skips().Unsaid() {
			to.Warn("%v", err)
		}
		if found.Refused != nil {
			if len(found.Files) == 0 {
				return nil, found.Refused
			}
			to.Warn("%s", found.Warning("included"))
		}
	}
	for _, f := range selector.Files() {
		if !slices.Contains(found.Files, f) {
			found.Files = append(found.Files, f)
		}
	}
	for _, f := range found.Files {
		of, err := sitesOf(to, selector, f, found.Uses[f])
		if err != nil {
			return nil, err
		}
		sites = append(sites, of...)
	}
	if len(sites) == 0 && found.PutOff != nil {
		return nil, found.PutOff
	}
	if len(sites) == 0 {
		for _, f := range found.Files {
			selector.Find(f)
		}
		return nil, fmt.Errorf("%w: nothing there has %s%s", query.ErrNothing, selector.Missing(), selector.Nearest())
	}
	return sites, nil
}

func sitesOf(
	to *console.Console, selector *probes.Selector, f *target.File, uses []probes.Use,
) (sites []Site, err error) {
	selected := slices.DeleteFunc(
		slices.Clone(f.Probes), func(p sdt.Site) bool { return !selector.Selects(f, &p) },
	)
	if len(selected) == 0 {
		return nil, nil
	}
	if f.Problem != nil {
		to.Warn("%s: %v", f.Path, f.Problem)
	}
	file, err := found(f, uses)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(selected, func(a, b sdt.Site) int {
		return strings.Compare(a.Provider+":"+a.Name, b.Provider+":"+b.Name)
	})
	for _, p := range selected {
		p.Args = slices.Clone(p.Args)
		f.Deltas(&p) // which describes p
		sites = append(sites, Site{Site: p, File: file})
	}
	return sites, nil
}

// found returns a path that leads to a file, if necessary through one of the processes that have
// mapped it.
func found(f *target.File, uses []probes.Use) (*File, error) {
	path, err := filepath.Abs(strings.TrimSuffix(f.Path, proc.Deleted))
	if err != nil {
		return nil, err
	}
	if leads(path, f) {
		return &File{Path: path}, nil
	}
	for _, u := range uses {
		through := []string{fmt.Sprintf("/proc/%d/root%s", proc.Task(u.PID), path)}
		for _, m := range u.Mappings {
			through = append(through, m.Link(u.PID))
		}
		for _, path := range through {
			if leads(path, f) {
				return &File{Path: path, PID: u.PID}, nil
			}
		}
	}
	return nil, fmt.Errorf("%w: no path leads to %s any more", query.ErrNothing, f.Path)
}

func leads(path string, f *target.File) bool {
	var stat unix.Stat_t
	return unix.Stat(path, &stat) == nil && f.ID == target.ID{Device: stat.Dev, Inode: stat.Ino}
}
