//go:build linux

package engine

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// file is the engine's state of a file.
type file struct {
	*target.File
	has         map[*Subscription]bool // whether it has probes that a subscription selects
	attachments []*attachment
	used        time.Time // when a process was last seen that has mapped the file
	retry       retry     // of what a shortage kept from being attached
}

// attachment records what was attached to a file for some subscriptions at the same time.
type attachment struct {
	subscriptions []*Subscription
	groups        []*group
	// links holds the links by PID, or under 0 if they are for all processes. They are for one
	// process each where the file can be changed while it is attached to: otherwise the kernel
	// would put the breakpoints of the old content into each process that maps the new one.
	links map[int]*links
}

// links keeps the first groups of an attachment attached.
type links struct {
	Links
	groups int
	parts  []*part // of these groups
}

// part keeps a group attached, alone.
type part struct {
	links Links
	once  sync.Once
	err   error
}

// Close detaches. It may be called again, and by several goroutines.
func (p *part) Close() error {
	p.once.Do(func() { p.err = p.links.Close() })
	return p.err
}

// group is a set of sites that run the same program.
type group struct {
	*sharedProgram
	sites    []sdt.Site
	attached int
}

// sharedProgram is a program that the kernel has, and its subscriptions.
type sharedProgram struct {
	Program
	probe         *bpf.Probe
	subscriptions []*Subscription
	withdrawn     bool // and not attached again
}

// wanted reports whether a subscription selects a probe of the file.
func (f *file) wanted() bool {
	for _, has := range f.has {
		if has {
			return true
		}
	}
	return false
}

// waiting returns the subscriptions that select probes of the file and are not attached to it.
func (f *file) waiting(all []*Subscription) (waiting []*Subscription) {
	for _, s := range all {
		attached := slices.ContainsFunc(f.attachments, func(a *attachment) bool { return slices.Contains(a.subscriptions, s) })
		if f.has[s] && !attached && s.ready() {
			waiting = append(waiting, s)
		}
	}
	return waiting
}

// attach attaches to the selected probes of a file, unless that was done before. It postpones
// what fails because of a shortage.
func (e *Engine) attach(f *file, uses []probes.Use) error {
	f.used = time.Now()
	if lower := e.files[f.Lower]; lower != nil {
		lower.used = f.used
	}
	if !f.retry.due(f.used) {
		return nil
	}
	complete, err := e.join(f, uses)
	if err != nil {
		return err
	}
	if e.Everywhere(f.File) {
		uses = []probes.Use{{}}
	}
	for _, a := range f.attachments {
		for _, u := range uses {
			short, err := e.attachTo(f, a, u.PID)
			if short != nil {
				e.postpone(f, short, a.subscriptions)
				return nil
			}
			if err != nil {
				return err
			}
		}
	}
	if complete {
		f.retry = retry{}
	}
	return nil
}

// join makes an attachment for the subscriptions that wait for one. complete is false if some are
// postponed: if the section of one cannot be generated now, the others do not wait for it.
func (e *Engine) join(f *file, uses []probes.Use) (complete bool, err error) {
	complete = true
	for waiting := f.waiting(e.subscriptions); len(waiting) > 0; {
		a := &attachment{subscriptions: waiting, links: map[int]*links{}}
		err := e.groups(f, a, uses)
		var of *sectionError
		switch {
		case errors.As(err, &of):
			e.postpone(f, of.error, []*Subscription{of.subscription})
			waiting = slices.DeleteFunc(slices.Clone(waiting), func(s *Subscription) bool { return s == of.subscription })
			complete = false
			continue
		case stall.Passes(err):
			e.postpone(f, err, waiting)
			return false, nil
		case err != nil:
			return false, err
		}
		f.attachments = append(f.attachments, a)
		if f.Problem != nil { // which is known when the types of the selected probes have been read
			for _, s := range waiting {
				s.Problem(fmt.Errorf("%s: %w", f.Path, f.Problem))
			}
		}
		break
	}
	return complete, nil
}

// sectionError is a shortage that keeps a subscription from generating its section for a probe.
type sectionError struct {
	error
	subscription *Subscription
}

// Everywhere reports whether a file is attached to in all processes. Without uprobe_multi there
// is no other way to reach all threads of one.
func (e *Engine) Everywhere(f *target.File) bool { return f.Guarded() || !e.kernel.PerProcess() }

// groups divides the selected sites of a file by their programs. If the error is a shortage, the same
// may succeed later.
func (e *Engine) groups(f *file, a *attachment, uses []probes.Use) error {
	for i := range f.Probes {
		site := &f.Probes[i]
		selecting := slices.DeleteFunc(slices.Clone(a.subscriptions), func(s *Subscription) bool { return !s.Selector().Selects(f.File, site) })
		if len(selecting) == 0 {
			continue
		}
		c := newCandidate(f, *site, uses)
		if f.Stalled() {
			return stall.Err // the types are missing
		}
		if !f.Spend(c.Key()) {
			continue
		}
		programs, err := e.programs(c, selecting)
		if err != nil {
			return err
		}
		for _, p := range programs {
			g := slices.IndexFunc(a.groups, func(g *group) bool { return g.sharedProgram == p })
			if g < 0 {
				g, a.groups = len(a.groups), append(a.groups, &group{sharedProgram: p})
			}
			a.groups[g].sites = append(a.groups[g].sites, *site)
		}
	}
	return nil
}

// programs returns the programs to attach to a probe for subscriptions: one for all of them,
// unless the kernel rejects it.
func (e *Engine) programs(c candidate, subscriptions []*Subscription) ([]*sharedProgram, error) {
	probe := c.Key()
	key := []string{probe}
	var with []*Subscription
	var sections []*bpf.Section
	for _, s := range subscriptions {
		section, err := s.section(probe, c.Probe)
		if stall.Passes(err) {
			return nil, &sectionError{err, s}
		}
		if err != nil {
			if err := e.exclude(s, verdict{c, err}); err != nil {
				return nil, err
			}
		}
		if section != nil {
			key, with, sections = append(key, fmt.Sprint(s.id)), append(with, s), append(sections, section)
		}
	}
	if len(with) == 0 {
		return nil, nil
	}
	id := strings.Join(key, "\x00")
	if known, ok := e.loaded[id]; ok {
		return known, nil
	}
	all, err := e.load(c, with, sections)
	if err != nil {
		for _, l := range all {
			l.Close()
		}
		return nil, err
	}
	e.loaded[id] = all // none after a verdict, which is reported once
	return all, nil
}

// load loads a program with sections, or two with half of them each if that fails, as it does if
// there are too many: a program can have 64 maps, of which a rule of an exporter uses seven or more.
func (e *Engine) load(c candidate, with []*Subscription, sections []*bpf.Section) ([]*sharedProgram, error) {
	prog, err := e.kernel.Load(c.Probe, sections)
	switch {
	case err == nil:
		e.include(c, with)
		return []*sharedProgram{{Program: prog, probe: c.Probe, subscriptions: with}}, nil
	case stall.Passes(err):
		return nil, err
	case len(with) == 1:
		return nil, e.exclude(with[0], verdict{c, err})
	}
	half := len(with) / 2
	first, err := e.load(c, with[:half], sections[:half])
	if err != nil {
		return first, err
	}
	second, err := e.load(c, with[half:], sections[half:])
	return append(first, second...), err
}

// attachTo attaches to a file in one process, or in all if pid is 0. When it is called again after
// a shortage, it continues where it stopped.
func (e *Engine) attachTo(f *file, a *attachment, pid int) (short, fatal error) {
	l := a.links[pid]
	if l != nil && l.groups == len(a.groups) {
		return nil, nil
	}
	if l == nil {
		l = &links{}
		a.links[pid] = l // where Withdraw finds it
	}
	closer, err := e.kernel.Guard(f.File, func() io.Closer {
		var all Links
		all, short, fatal = e.attachGroups(f, a, l, pid)
		return all
	})
	if err != nil {
		return nil, nil // the file is looked at again when it has been written
	}
	l.Links = append(l.Links, closer)
	return short, fatal
}

func (e *Engine) attachGroups(f *file, a *attachment, l *links, pid int) (all Links, short, fatal error) {
	for ; l.groups < len(a.groups); l.groups++ {
		g := a.groups[l.groups]
		if g.withdrawn {
			l.parts = append(l.parts, &part{})
			continue
		}
		links, err := e.kernel.Attach(g.Program, f.File, g.sites, pid)
		gone := err != nil && pid != 0 && !e.processes.Alive(pid)
		if stall.Passes(err) && !gone {
			_ = links.Close() // the group is tried again as a whole
			return all, err, nil
		}
		added := &part{links: links}
		all, l.parts = append(all, added), append(l.parts, added)
		if g.withdrawn { // meanwhile
			_ = added.Close()
			continue
		}
		n := len(g.sites)
		if err != nil {
			n = len(links) // each site has its own, now that not all could be attached to at once
		}
		g.count(n)
		if err == nil {
			continue
		}
		if gone {
			l.groups = len(a.groups)
			break
		}
		var refused *rights.Error
		for _, s := range g.subscriptions {
			if !errors.As(err, &refused) {
				s.Problem(fmt.Errorf("%s: %w", f.Path, err))
			} else if err := e.fatal(s, refused); err != nil {
				return all, nil, err
			}
		}
	}
	return all, nil, nil
}

// count records the number of sites that are attached to in a process. Other processes may have
// more.
func (g *group) count(sites int) {
	if more := sites - g.attached; more > 0 {
		g.add(more)
	}
}

func (g *group) add(sites int) {
	g.attached += sites
	for _, s := range g.subscriptions {
		s.sites.Add(int64(sites))
	}
}

// detach returns all links, for the caller to close.
func (a *attachment) detach() (all Links) {
	for _, l := range a.links {
		all = append(all, l.Links...)
	}
	clear(a.links)
	for _, g := range a.groups {
		g.add(-g.attached)
	}
	return all
}

// drop detaches from a file, and forgets it. If it is found again, it is attached to again.
func (e *Engine) drop(f *file) {
	defer f.Charge(time.Now())
	for _, a := range f.attachments {
		_ = a.detach().Close()
	}
	delete(e.files, f.File)
	for _, s := range e.subscriptions {
		s.Selector().Forget(f.File)
	}
}

const (
	// deletedFileTTL is how long a file stays open that no process has mapped and none can map
	// again.
	deletedFileTTL = 30 * time.Second
	// fileTTL is how long any other file stays open that no process has mapped. stapsdt clean
	// leaves files that are open.
	fileTTL = 10 * time.Minute
)

// forget detaches from files that no process has mapped for a while, and sooner from those that
// nothing can map again: they were deleted, as the images of processes that have ended are, or
// their file system is gone, as that of a container is. It detaches at once from files that
// others could change, from processes that have ended, and where descriptors are short, from all that no process has mapped.
func (e *Engine) forget() {
	crowded := e.crowded
	e.crowded = false
	for _, f := range e.files {
		for _, a := range f.attachments {
			for pid, links := range a.links {
				if pid != 0 && !e.processes.Alive(pid) {
					_ = links.Close()
					delete(a.links, pid)
				}
			}
		}
		unused := time.Since(f.used)
		if !f.used.IsZero() && !e.isNamed(f.File) &&
			(unused > fileTTL || (crowded || !f.Guarded()) && f.used.Before(e.scanned) || unused > deletedFileTTL && f.Unreachable()) {
			e.drop(f)
			e.finder.Forget(f.File)
		}
	}
}

// isNamed reports whether a spec names the file, so that no process need be looked at to find it.
func (e *Engine) isNamed(f *target.File) bool {
	return slices.ContainsFunc(e.subscriptions, func(s *Subscription) bool { return slices.Contains(s.Selector().Files(), f) })
}
