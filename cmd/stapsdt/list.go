//go:build linux

package main

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/usage"
	"github.com/go-stapsdt/stapsdt/sdt"
	"github.com/spf13/cobra"
)

type list struct {
	*console.Console
	target  probes.Target
	verbose bool
	asJSON  bool
}

func listCommand(to *console.Console) *cobra.Command {
	l := &list{Console: to}
	c := &cobra.Command{
		Use:   "list (-p PID | -a | FILE...)",
		Short: "List probes, their arguments, and what is traced now",
		Long: `List the probes of processes or of files, with the names and types of their arguments
as far as the files describe them. Where a type is unknown, the size and the sign of the
argument are shown in Go's way: int32, uint8.`,
		Example: `  stapsdt list -p 1234
  stapsdt list -v /usr/lib/postgresql/15/bin/postgres
  stapsdt list -a -o json`,
		RunE: func(_ *cobra.Command, args []string) error { return l.run(args) },
	}
	targetFlags(c, &l.target)
	c.Flags().BoolVarP(&l.verbose, "verbose", "v", false, "show each site: its offset, its semaphore and the operands of its arguments")
	outputFlag(c, &l.asJSON)
	return c
}

func (l *list) run(paths []string) error {
	if err := l.target.Check(); err != nil {
		return err
	}
	processes := l.target.Given()
	if processes == (len(paths) > 0) {
		return usage.Errorf("list takes one of -p PID, -a and FILE")
	}
	finder := target.NewFinder()
	defer finder.Close()
	found, err := l.find(finder, paths)
	if err != nil {
		return err
	}
	for _, f := range found.Files {
		if f.Problem != nil {
			l.Warn("%s: %v", f.Path, f.Problem)
		}
	}
	if found.Refused != nil {
		if len(found.Files) == 0 {
			return found.Refused
		}
		l.Warn("%s", found.Warning("shown"))
	}
	if len(found.Files) == 0 {
		return fmt.Errorf("%w: no file there has SDT probes", probes.ErrNothing)
	}
	out := bufio.NewWriter(l.Out)
	for i, f := range found.Files {
		all := listed(f, found.Uses[f])
		if l.asJSON {
			err = l.json(out, f, all)
		} else {
			if i > 0 {
				fmt.Fprintln(out)
			}
			l.text(out, f, all)
		}
		if err != nil {
			return err
		}
	}
	return out.Flush()
}

// find returns the files that are meant. For paths it looks for the processes that have
// mapped them, as far as it may.
func (l *list) find(finder *target.Finder, paths []string) (*probes.Found, error) {
	if len(paths) == 0 {
		return l.target.Look(finder)
	}
	var files []*target.File
	for _, path := range paths {
		f, err := finder.Open(path)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(files, f) {
			files = append(files, f)
		}
	}
	found, err := (&probes.Target{All: true}).Look(finder)
	if err != nil {
		found = &probes.Found{}
	}
	found.Files, found.Refused = files, nil
	return found, nil
}

// listedProbe is a name and all of its sites in a file.
type listedProbe struct {
	name  string // PROVIDER:PROBE
	sites []sdt.Site
	// pids are the processes that have mapped the file.
	pids []int
	// traced are the sites to which a tracer is attached in some process, by their index.
	traced map[int]bool
	known  bool // whether it is known in some process if it is traced
}

// listed returns the probes of a file in the order of their names.
func listed(f *target.File, uses []probes.Use) []*listedProbe {
	byName := map[string]*listedProbe{}
	var all []*listedProbe
	for _, p := range f.Probes {
		name := p.Provider + ":" + p.Name
		lp := byName[name]
		if lp == nil {
			lp = &listedProbe{name: name, traced: map[int]bool{}}
			byName[name] = lp
			all = append(all, lp)
		}
		lp.sites = append(lp.sites, p)
	}
	slices.SortFunc(all, func(a, b *listedProbe) int { return cmp.Compare(a.name, b.name) })
	for _, u := range uses {
		memory, err := target.OpenMemory(u.PID)
		for _, lp := range all {
			lp.pids = append(lp.pids, u.PID)
			if err != nil {
				continue
			}
			for i, site := range lp.sites {
				traced, known := memory.Traced(u.Use, site)
				lp.known = lp.known || known
				if traced {
					lp.traced[i] = true
				}
			}
		}
		if err == nil {
			memory.Close()
		}
	}
	return all
}

func (lp *listedProbe) semaphore() bool {
	return slices.ContainsFunc(lp.sites, func(p sdt.Site) bool { return p.Semaphore != 0 })
}

func (l *list) text(out *bufio.Writer, f *target.File, probes []*listedProbe) {
	fmt.Fprint(out, render.Printable(f.Path))
	if len(probes) > 0 && len(probes[0].pids) > 0 {
		fmt.Fprintf(out, " (%s)", processList(probes[0].pids))
	}
	fmt.Fprintln(out)
	for _, lp := range probes {
		var notes []string
		if len(lp.sites) > 1 {
			notes = append(notes, fmt.Sprintf("%d sites", len(lp.sites)))
		}
		if lp.semaphore() {
			notes = append(notes, "semaphore")
		}
		switch n := len(lp.traced); {
		case n > 0 && n == len(lp.sites):
			notes = append(notes, "traced now")
		case n > 0:
			notes = append(notes, fmt.Sprintf("traced now at %d of them", n))
		}
		line := fmt.Sprintf("  %s(%s)", render.Printable(lp.name), target.Signature(lp.sites[0]))
		if len(notes) > 0 {
			line += "  # " + strings.Join(notes, ", ")
		}
		fmt.Fprintln(out, line)
		if !l.verbose {
			continue
		}
		for _, site := range lp.sites {
			fmt.Fprintf(out, "      at %#x", site.Offset)
			if site.SemaphoreOffset != 0 {
				fmt.Fprintf(out, ", semaphore %#x", site.SemaphoreOffset)
			}
			for _, a := range site.Args {
				fmt.Fprintf(out, " %s", render.Printable(a.String()))
			}
			fmt.Fprintln(out)
			for i, a := range site.Args {
				if a.Err != nil {
					fmt.Fprintf(out, "      argument %d cannot be read: %v\n", i, a.Err)
				}
			}
		}
	}
}

// processList returns "process 12" or "processes 12, 13 and 5 others".
func processList(pids []int) string {
	if len(pids) == 1 {
		return fmt.Sprintf("process %d", pids[0])
	}
	const most = 8
	var all []string
	for _, pid := range pids[:min(len(pids), most)] {
		all = append(all, fmt.Sprint(pid))
	}
	if len(pids) > most {
		return fmt.Sprintf("processes %s and %d others", strings.Join(all, ", "), len(pids)-most)
	}
	return "processes " + strings.Join(all, ", ")
}

// The objects of list -o json.
type (
	jsonProbe struct {
		File      string     `json:"file"`
		Provider  string     `json:"provider"`
		Probe     string     `json:"probe"`
		Args      []jsonArg  `json:"args"`
		Sites     []jsonSite `json:"sites"`
		Semaphore bool       `json:"semaphore"`
		PIDs      []int      `json:"pids"`
		// Traced is null if it is not known.
		Traced *bool `json:"traced"`
	}
	jsonArg struct {
		Name string `json:"name,omitempty"`
		Type string `json:"type"`
	}
	jsonSite struct {
		Offset    uint64   `json:"offset"`
		Semaphore uint64   `json:"semaphore,omitempty"`
		Operands  []string `json:"operands"`
	}
)

func (l *list) json(out *bufio.Writer, f *target.File, probes []*listedProbe) error {
	encoder := render.NewEncoder(out)
	for _, lp := range probes {
		first := lp.sites[0]
		j := jsonProbe{
			File: f.Path, Provider: first.Provider, Probe: first.Name, Semaphore: lp.semaphore(),
			PIDs: slices.Concat([]int{}, lp.pids), Args: []jsonArg{},
		}
		for _, a := range first.Args {
			j.Args = append(j.Args, jsonArg{a.Name, target.TypeName(a)})
		}
		for _, site := range lp.sites {
			s := jsonSite{Offset: site.Offset, Semaphore: site.SemaphoreOffset, Operands: []string{}}
			for _, a := range site.Args {
				s.Operands = append(s.Operands, a.String())
			}
			j.Sites = append(j.Sites, s)
		}
		if lp.known {
			traced := len(lp.traced) > 0
			j.Traced = &traced
		}
		if err := encoder.Encode(j); err != nil {
			return err
		}
	}
	return nil
}
