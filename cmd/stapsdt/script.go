//go:build linux

package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/script"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/usage"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

type scriptWriter struct {
	*console.Console
	target probes.Target
	tracer string
	texts  []string
}

func scriptCommand(to *console.Console) *cobra.Command {
	g := &scriptWriter{Console: to}
	c := &cobra.Command{
		Use:   "script SPEC... --for bpftrace|tracefs (-p PID | -a | with FILE in each SPEC)",
		Short: "Print a script that traces the probes without this command",
		Long: `Print a script that prints each event of the probes with a tracer that a machine already has:
bpftrace, from version 0.17 on, or the kernel alone, with events in tracefs.

SPEC is [FILE:]PROVIDER:PROBE. Without a FILE, -p or -a says which processes are meant. The
script has the probes that exist when it is made.`,
		Example: `  stapsdt script -p 1234 'myapp:*' --for bpftrace >myapp.bt
  stapsdt script postgres:postgresql:query__start --for tracefs --str arg0 >query.sh`,
		RunE: func(_ *cobra.Command, args []string) error { return g.run(args) },
	}
	targetFlags(c, &g.target)
	c.Flags().StringVar(&g.tracer, "for", "", "the `TRACER`: bpftrace, or tracefs for a shell script")
	c.Flags().StringSliceVar(&g.texts, "str", nil, "the arguments `ARG,...` are texts, such as arg0, although the file does not say so")
	_ = c.RegisterFlagCompletionFunc("for", cobra.FixedCompletions([]string{"bpftrace", "tracefs"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (g *scriptWriter) run(specs []string) error {
	if g.tracer != "bpftrace" && g.tracer != "tracefs" {
		return usage.Errorf("for which tracer? Give --for bpftrace or --for tracefs")
	}
	selector, err := g.target.Selector(specs, nil)
	if err != nil {
		return err
	}
	finder := target.NewFinder()
	defer finder.Close()
	sites, err := g.sites(finder, selector)
	if err != nil {
		return err
	}
	generated := &script.Script{Specs: strings.Join(specs, " "), PIDs: slices.Sorted(slices.Values(g.target.PIDs)), Sites: sites, Texts: g.texts}
	write := generated.Bpftrace
	if g.tracer == "tracefs" {
		write = generated.Tracefs
	}
	text, skipped := write()
	for _, why := range skipped {
		g.Warn("%s", why)
	}
	_, err = io.WriteString(g.Out, text)
	return err
}

// sites returns the sites that are selected, in the order of their files and names.
func (g *scriptWriter) sites(finder *target.Finder, selector *probes.Selector) (sites []script.Site, err error) {
	if err := selector.Open(finder); err != nil {
		return nil, err
	}
	found := &probes.Found{}
	if g.target.Given() {
		if found, err = g.target.Look(finder); err != nil {
			return nil, err
		}
		if found.Refused != nil {
			if len(found.Files) == 0 {
				return nil, found.Refused
			}
			g.Warn("%s", found.Warning("included"))
		}
	}
	for _, f := range selector.Files() {
		if !slices.Contains(found.Files, f) {
			found.Files = append(found.Files, f)
		}
	}
	for _, f := range found.Files {
		of, err := g.of(selector, f, found.Uses[f])
		if err != nil {
			return nil, err
		}
		sites = append(sites, of...)
	}
	if len(sites) == 0 {
		return nil, fmt.Errorf("%w: nothing there has %s", probes.ErrNothing, selector.Missing())
	}
	return sites, nil
}

// of returns the sites of a file that are selected.
func (g *scriptWriter) of(selector *probes.Selector, f *target.File, uses []probes.Use) (sites []script.Site, err error) {
	selected := slices.DeleteFunc(slices.Clone(f.Probes), func(p sdt.Site) bool { return !selector.Selects(f, &p) })
	if len(selected) == 0 {
		return nil, nil
	}
	if f.Problem != nil {
		g.Warn("%s: %v", f.Path, f.Problem)
	}
	file, err := found(f, uses)
	if err != nil {
		return nil, err
	}
	if file.Sum, file.Size, err = script.Sum(io.NewSectionReader(f, 0, 1<<62)); err != nil {
		return nil, err
	}
	slices.SortStableFunc(selected, func(a, b sdt.Site) int {
		return strings.Compare(a.Provider+":"+a.Name, b.Provider+":"+b.Name)
	})
	for _, p := range selected {
		p.Args = slices.Clone(p.Args)
		deltas := f.Deltas(&p)
		sites = append(sites, script.Site{Site: p, File: file, Deltas: deltas})
	}
	return sites, nil
}

// found returns a path that leads to a file, if need be through one of the processes that have
// mapped it.
func found(f *target.File, uses []probes.Use) (*script.File, error) {
	path, err := filepath.Abs(strings.TrimSuffix(f.Path, " (deleted)"))
	if err != nil {
		return nil, err
	}
	if leads(path, f) {
		return &script.File{Path: path}, nil
	}
	for _, u := range uses {
		if through := fmt.Sprintf("/proc/%d/root%s", u.PID, path); leads(through, f) {
			return &script.File{Path: through, PID: u.PID}, nil
		}
	}
	for _, u := range uses {
		for _, m := range u.Mappings {
			if through := fmt.Sprintf("/proc/%d/map_files/%x-%x", u.PID, m.Start, m.End); leads(through, f) {
				return &script.File{Path: through, PID: u.PID}, nil
			}
		}
	}
	return nil, fmt.Errorf("%w: no path leads to %s any more", probes.ErrNothing, f.Path)
}

func leads(path string, f *target.File) bool {
	var stat unix.Stat_t
	return unix.Stat(path, &stat) == nil && f.ID == target.ID{Device: stat.Dev, Inode: stat.Ino}
}
