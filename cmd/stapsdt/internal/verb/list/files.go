//go:build linux

package list

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/debugfile"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/recordings"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// lister runs the command list.
type lister struct {
	target    query.Target
	pods      map[int]cgroup.Container // the containers of the processes that are in a pod
	options   Options
	listening []*listener // the processes that listen
	recording []recordings.Recording
	functions bool // whether functions are shown instead of probes
}

// runFiles shows the probes of the processes of a target, or of files.
func runFiles(to *console.Console, where query.Target, paths []string, o Options) error {
	l := &lister{target: where, options: o}
	finder, err := newFinder(&where)
	if err != nil {
		return err
	}
	defer finder.Debug.Close()
	defer finder.Close()
	found, err := l.find(finder, paths)
	if err == nil {
		err = l.checkDebugFiles(finder, found)
	}
	if err != nil {
		return err
	}
	var moved []error
	if len(paths) == 0 {
		moved = found.DropMoved()
	}
	l.askAll(to, found)
	bySocket := slices.DeleteFunc(slices.Clone(l.listening), func(one *listener) bool {
		return len(one.probes) == 0
	})
	for _, f := range found.Files {
		if f.Problem != nil {
			to.Warn("%s: %v", f.Path, f.Problem)
		}
	}
	for _, err := range finder.Skips().Unsaid() {
		to.Warn("%v", err)
	}
	if len(found.Files)+len(bySocket) == 0 {
		return l.nothing(to, found, moved)
	}
	if found.Refused != nil && (len(found.Files) > 0 || l.target.All) {
		to.Warn("%s", found.Warning("shown"))
	}
	l.warnHidden(to, found)
	for _, err := range moved {
		to.Warn("%v", err)
	}
	return l.print(to, found, bySocket)
}

// askAll finds more about the processes: the probes that their sockets show, their pods, and their
// recordings.
func (l *lister) askAll(to *console.Console, found *probes.Found) {
	l.listening = l.listeners()
	l.findPods(found)
	for _, err := range ask(l.listening, found) {
		to.Warn("%v", err)
	}
	l.findRecordings(to, l.pids(found))
}

func (l *lister) warnHidden(to *console.Console, found *probes.Found) {
	if hidden := found.Hidden(l.target.All); hidden != "" && l.options.Verbose {
		to.Warn("%s", hidden)
	}
}

// nothing shows the recordings if no file and no socket shows a probe, or returns the reason. moved
// are the files whose code was moved.
func (l *lister) nothing(to *console.Console, found *probes.Found, moved []error) error {
	if len(l.recording) > 0 {
		if found.Refused != nil {
			to.Warn("%v", found.Refused)
		}
		return Recorded(to, l.recording, l.options.Format)
	}
	if found.Refused != nil {
		return found.Refused
	}
	l.warnHidden(to, found)
	if found.PutOff != nil {
		return found.PutOff
	}
	if len(moved) > 0 {
		return fmt.Errorf("%w: %w", query.ErrNothing, moved[0])
	}
	hint := probes.Functions(l.target.PIDs)
	return fmt.Errorf("%w: no file there has SDT probes%s", query.ErrNothing, hint)
}

// print prints the probes of files, and those that only sockets show.
func (l *lister) print(to *console.Console, found *probes.Found, bySocket []*listener) error {
	out := &printer{Writer: bufio.NewWriter(to.Out), Options: &l.options}
	for _, f := range found.Files {
		out.group(l.ofFile(f, found.Uses[f]))
	}
	for _, one := range bySocket {
		pids := one.pids()
		heading := fmt.Sprintf("%v, by its socket", one.Process)
		out.group(heading, l.recordingLines(pids), one.shown(l.recordingOf(pids)))
	}
	return out.Flush()
}

// newFinder returns a finder that knows the debug files that the user has named.
func newFinder(where *query.Target) (*target.Finder, error) {
	debug, err := debugfile.Named(where.DebugFiles)
	if err != nil {
		return nil, err
	}
	finder := target.NewFinder()
	finder.Debug, finder.Source.Directories = debug, where.Sources
	return finder, nil
}

// checkDebugFiles returns an error if a debug file that the user has named belongs to no program
// that the user has named.
func (l *lister) checkDebugFiles(finder *target.Finder, found *probes.Found) error {
	if len(l.target.DebugFiles) == 0 || l.target.All || len(l.target.Pods) > 0 {
		return nil
	}
	for _, f := range found.Files {
		f.NoteDebug()
	}
	target.NoteDebug(finder.Debug, proc.Family(l.target.PIDs))
	return finder.Debug.Stray()
}

// pids returns the processes that were named or whose probes are shown, without duplicates.
func (l *lister) pids(found *probes.Found) (all []int) {
	for _, uses := range found.Uses {
		for _, u := range uses {
			all = append(all, u.PID)
		}
	}
	for _, one := range l.listening {
		all = append(all, one.pids()...)
	}
	if !l.target.All {
		all = append(all, proc.Family(l.target.PIDs)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// find returns the selected files. For paths it also finds the processes that have mapped them, as
// far as permitted.
func (l *lister) find(finder *target.Finder, paths []string) (*probes.Found, error) {
	if len(paths) == 0 {
		found, err := probes.LookAt(&l.target, finder)
		if errors.As(err, new(*rights.Error)) { // a socket may show what the files do not
			now, _ := probes.Now(&l.target)
			return probes.Look(finder.Process, proc.Family(now.PIDs), nil, nil)
		}
		return found, err
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
	finder.Freeze()
	found, err := probes.LookAt(&query.Target{All: true}, finder)
	if err != nil {
		found = &probes.Found{}
	}
	finder.Skips().DropFiles() // which are others
	found.Files, found.Refused, found.PutOff = files, nil, nil
	return found, nil
}

// ofFile returns the probes of a file, sorted by name, and the heading and lines that describe the
// file.
func (l *lister) ofFile(
	f *target.File, uses []probes.Use,
) (heading string, lines []string, all []*probe) {
	byName := make(map[string]*probe, len(f.Probes))
	pids := pidsOf(uses)
	var listening []int // those that show a probe of the file
	for i := range f.Probes {
		s := &f.Probes[i]
		name := s.Provider + ":" + s.Name
		p := byName[name]
		if p == nil {
			p = &probe{key: name, JSONProbe: JSONProbe{
				File: f.Path, Provider: s.Provider, Probe: s.Name,
				Args: arguments(s), Semaphore: new(bool),
				PIDs: pids, Listening: l.listeningOf(pids, name),
				Recordings: l.recordingOf(pids), Pods: l.podsOf(pids),
			}}
			byName[name] = p
			all = append(all, p)
			listening = append(listening, p.Listening...)
		}
		if p.sites = append(p.sites, s); l.options.Format.IsJSON() {
			p.Sites = append(p.Sites, newSite(s))
		}
		*p.Semaphore = *p.Semaphore || s.Semaphore != 0
	}
	slices.SortFunc(all, func(a, b *probe) int { return cmp.Compare(a.key, b.key) })
	lines = l.podLines(pids)
	if len(listening) > 0 {
		slices.Sort(listening)
		lines = append(lines, "can be watched without root: "+text.Processes(slices.Compact(listening)))
	}
	lines = append(lines, l.recordingLines(pids)...)
	findTraced(uses, all)
	for _, p := range all {
		p.remark()
	}
	return mapped(f.Path, pids), lines, all
}

// findTraced finds at how many sites of each probe a tracer is attached in some process, as far as
// these can be read.
func findTraced(uses []probes.Use, all []*probe) {
	seen := map[*sdt.Site]bool{}
	var offsets []uint64
	for _, p := range all {
		for _, at := range p.sites {
			offsets = append(offsets, at.Offset)
		}
	}
	for _, u := range uses {
		memory, err := proc.OpenMemory(u.PID)
		if err != nil {
			continue
		}
		traced := memory.Traced(u, u.Mappings, offsets)
		memory.Close()
		for _, p := range all {
			for _, at := range p.sites {
				is, tells := traced[at.Offset]
				if tells && p.Traced == nil {
					p.Traced = new(bool)
				}
				if is && !seen[at] {
					seen[at] = true
					p.traced++
				}
			}
		}
	}
}

// remark notes how many sites a probe has, and at how many of them a tracer is attached.
func (p *probe) remark() {
	if len(p.sites) > 1 {
		p.notes = append(p.notes, fmt.Sprintf("%d sites", len(p.sites)))
	}
	if *p.Semaphore {
		p.notes = append(p.notes, "semaphore")
	}
	switch {
	case p.traced > 0 && p.traced == len(p.sites):
		p.notes = append(p.notes, "traced now")
	case p.traced > 0:
		p.notes = append(p.notes, fmt.Sprintf("traced now at %d of them", p.traced))
	}
	if p.Traced != nil {
		*p.Traced = p.traced > 0
	}
}
