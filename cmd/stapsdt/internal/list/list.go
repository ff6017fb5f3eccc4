//go:build linux

// Package list shows the probes of processes and of files.
package list

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/proc"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/remote"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// Options select the probes and the output.
type Options struct {
	// JSON selects the output for programs.
	JSON bool
	// Verbose shows each site.
	Verbose bool
	// From are the recordings whose probes are shown.
	From replay.From
}

// lister runs the command list.
type lister struct {
	target    probes.Target
	pods      map[int]cgroup.Container // of the processes that are in a pod
	options   Options
	listening []*listener // the processes that listen
	recording []Recording
	functions bool // whether functions are shown instead of probes
}

// Run shows the probes of a target, of files, or of the program at an address.
func Run(ctx context.Context, to *console.Console, where probes.Target, paths []string, o Options) error {
	if err := where.Check(); err != nil {
		return err
	}
	specs, files, err := functionSpecs(paths)
	if err != nil {
		return err
	}
	if len(specs) > 0 {
		return runFunctions(to, where, specs, files, o)
	}
	if o.From.Given() {
		if where.Given() || len(paths) > 0 {
			return console.Usagef("list takes one of -p PID, -a, FILE..., --from FILE and http://HOST/debug/probes/")
		}
		return runRecorded(ctx, to, o)
	}
	addressed := slices.ContainsFunc(paths, remote.IsAddress)
	if where.Given() == (len(paths) > 0) || addressed && len(paths) > 1 {
		return console.Usagef("list takes one of -p PID, -a, FILE... and http://HOST/debug/probes/")
	}
	if addressed {
		return runRemote(ctx, to, paths[0], o)
	}
	l := &lister{target: where, options: o}
	finder := target.NewFinder()
	defer finder.Close()
	found, err := l.find(finder, paths)
	if err != nil {
		return err
	}
	l.listening = l.listeners()
	l.findPods(found)
	ask(l.listening, found)
	l.recording = Recordings(l.pids(found))
	bySocket := slices.DeleteFunc(slices.Clone(l.listening), func(one *listener) bool { return len(one.probes) == 0 })
	for _, f := range found.Files {
		if f.Problem != nil {
			to.Warn("%s: %v", f.Path, f.Problem)
		}
	}
	for _, err := range finder.Skips().Unsaid() {
		to.Warn("%v", err)
	}
	if found.Refused != nil {
		if len(found.Files)+len(bySocket) == 0 {
			return found.Refused
		}
		if len(found.Files) > 0 || l.target.All {
			to.Warn("%s", found.Warning("shown"))
		}
	}
	if hidden := found.Hidden(); hidden != "" && o.Verbose {
		to.Warn("%s", hidden)
	}
	if len(found.Files)+len(bySocket) == 0 {
		return fmt.Errorf("%w: no file there has SDT probes", probes.ErrNothing)
	}
	out := bufio.NewWriter(to.Out)
	for i, f := range found.Files {
		all := listed(f, found.Uses[f])
		if o.JSON {
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
	for i, one := range bySocket {
		if o.JSON {
			if err := one.json(out, l.recordingOf(one.pids())); err != nil {
				return err
			}
			continue
		}
		if i+len(found.Files) > 0 {
			fmt.Fprintln(out)
		}
		one.text(out)
		l.recordings(out, one.pids())
	}
	return out.Flush()
}

// pids returns the processes whose probes are shown, without duplicates.
func (l *lister) pids(found *probes.Found) (all []int) {
	for _, uses := range found.Uses {
		for _, u := range uses {
			all = append(all, u.PID)
		}
	}
	for _, one := range l.listening {
		all = append(all, one.pids()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// find returns the selected files. For paths it also finds the processes that have mapped them, as far as permitted.
func (l *lister) find(finder *target.Finder, paths []string) (*probes.Found, error) {
	if len(paths) == 0 {
		return l.target.Look(finder)
	}
	var files []*target.File
	for _, path := range paths {
		f, err := finder.Open(path)
		if errors.Is(err, sdt.ErrNoProbes) && l.functions {
			continue // the finder knows why it has none of the functions
		}
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

// listedProbe is a name with all of its sites in a file.
type listedProbe struct {
	name  string // PROVIDER:PROBE
	sites []sdt.Site
	// pids are the processes that have mapped the file.
	pids []int
	// traced has the indexes of the sites to which a tracer is attached in some process.
	traced map[int]bool
	known  bool // whether traced is known for some process
}

// listed returns the probes of a file, sorted by name.
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
		memory, err := proc.OpenMemory(u.PID)
		for _, lp := range all {
			lp.pids = append(lp.pids, u.PID)
			if err != nil {
				continue
			}
			for i, site := range lp.sites {
				traced, known := memory.Traced(u, u.Mappings, site.Offset)
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
