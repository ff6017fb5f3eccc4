//go:build linux

package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/lease"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
)

// group is a set of sites that run the same program.
type group struct {
	*sharedProgram
	sites    []Site
	attached int
	order    int // index of the spec that selects the sites, in the first subscription
}

// sharedProgram is a loaded program and its subscriptions.
type sharedProgram struct {
	Program
	probe         *bpf.Probe
	subscriptions []*Subscription
	withdrawn     bool // not attached again
	// file is the only file that it serves, or nil.
	file *file
	// part means that it has a part of the sections of one probe, because the kernel rejected a
	// program with all, and that cookie is the cookie of the probe's sites.
	part   bool
	cookie uint64
}

// join makes an attachment for the subscriptions that wait for one. complete is false if some are
// postponed: if the section of one cannot be generated now, the others do not wait for it.
func (e *Engine) join(f *file, uses []probes.Use) (complete bool, err error) {
	complete = true
	for waiting := f.waiting(e.subscriptions); len(waiting) > 0; {
		a := &attachment{
			subscriptions: waiting,
			links:         map[int][]*lease.Attachment{}, late: map[int]*group{},
		}
		err := e.groups(f, a, uses)
		var of *sectionError
		switch {
		case errors.As(err, &of):
			e.postpone(f, of.error, []*Subscription{of.subscription})
			waiting = slices.DeleteFunc(slices.Clone(waiting), func(s *Subscription) bool {
				return s == of.subscription
			})
			complete = false
			continue
		case stall.Passes(err):
			e.postpone(f, err, waiting)
			return false, nil
		case err != nil:
			return false, err
		}
		f.attachments = append(f.attachments, a)
		if f.Problem != nil { // known once the types of the selected probes have been read
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

// groups divides the selected sites of a file by their programs. After a shortage, the same call
// may succeed later.
func (e *Engine) groups(f *file, a *attachment, uses []probes.Use) error {
	type program struct {
		*sharedProgram
		order int
	}
	shapes := shapes{}
	groups := make(map[program]*group, len(a.groups))
	for _, g := range a.groups {
		groups[program{g.sharedProgram, g.order}] = g
	}
	for i := range f.Probes {
		site := &f.Probes[i]
		selecting := slices.DeleteFunc(slices.Clone(a.subscriptions), func(s *Subscription) bool {
			return !s.Selector.Selects(f.File, site)
		})
		if len(selecting) == 0 {
			continue
		}
		c := newCandidate(f, *site, uses, selecting)
		c.alone = e.kernel.PerFile(c.Probe)
		if f.Stalled() {
			return stall.Err // the types are missing
		}
		if !f.Spend(c.key, c.alone) {
			continue
		}
		programs, cookie, err := e.programs(c, selecting, shapes)
		if err != nil {
			return err
		}
		for _, p := range programs {
			of := program{p, p.subscriptions[0].Selector.Order(f.File, site)}
			g := groups[of]
			if g == nil {
				g = &group{sharedProgram: p, order: of.order}
				groups[of], a.groups = g, append(a.groups, g)
			}
			s := Site{*site, cookie}
			if p.part {
				s.Cookie = p.cookie
			}
			g.sites = append(g.sites, s)
		}
	}
	sortGroups(a.groups)
	return nil
}

// shapes are the results of Kernel.Shape by probe and subscriptions, for a file: thousands of its
// sites can be alike.
type shapes map[string]shape

type shape struct {
	program string
	cookie  uint64
}

func (s shapes) of(own string, kernel Kernel, p *bpf.Probe, sections []*bpf.Section) shape {
	one, known := s[own]
	if !known {
		one.program, one.cookie = kernel.Shape(p, sections)
		s[own] = one
	}
	return one
}

// programs returns the programs to attach to a probe for subscriptions, with a cookie: one for all
// of them, unless the kernel rejects it.
func (e *Engine) programs(
	c candidate, subscriptions []*Subscription, shapes shapes,
) (_ []*sharedProgram, cookie uint64, err error) {
	var ids []string
	var with []*Subscription
	var sections []*bpf.Section
	for _, s := range subscriptions {
		section, err := s.section(c.key, c.Probe)
		if stall.Passes(err) {
			return nil, 0, &sectionError{err, s}
		}
		if err != nil {
			if err := e.exclude(s, verdict{c, err}); err != nil {
				return nil, 0, err
			}
		}
		if section != nil {
			ids, with = append(ids, fmt.Sprint(s.id)), append(with, s)
			sections = append(sections, section)
		}
	}
	subscribers := "\x00" + strings.Join(ids, "\x00")
	if c.alone {
		subscribers = fmt.Sprintf("%s\x00file %d", subscribers, c.file.number)
	}
	own := c.key + subscribers
	if len(with) == 0 || e.refused[own] {
		return nil, 0, nil
	}
	shape := shapes.of(own, e.kernel, c.Probe, sections)
	id, cookie := shape.program+subscribers, shape.cookie
	known, ok := e.loaded[id]
	if !ok {
		known, ok = e.loaded[own]
	}
	if ok {
		for _, p := range known {
			e.include(c, p.subscriptions)
		}
		return known, cookie, nil
	}
	all, err := e.load(c, with, sections)
	switch {
	case err != nil:
		for _, l := range all {
			l.Close()
		}
		return nil, 0, err
	case len(all) == 0:
		e.refused[own] = true // so that the verdict is reported only once
	case len(all) == 1 && len(all[0].subscriptions) == len(with):
		e.loaded[id] = all
	default: // other probes get programs of their own, and verdicts
		for _, p := range all {
			p.part = true
		}
		e.loaded[own] = all
	}
	return all, cookie, nil
}

// load loads one program with all sections. If that fails, it loads two with half of them each:
// a program can use 64 maps, and each rule of an exporter uses seven or more.
func (e *Engine) load(
	c candidate, with []*Subscription, sections []*bpf.Section,
) ([]*sharedProgram, error) {
	prog, err := e.kernel.Load(c.Probe, c.file.File, sections)
	switch {
	case err == nil:
		e.include(c, with)
		_, cookie := e.kernel.Shape(c.Probe, sections)
		p := &sharedProgram{Program: prog, probe: c.Probe, subscriptions: with, cookie: cookie}
		if c.alone {
			p.file, p.withdrawn = c.file, c.file.withdrawn[c.key]
		}
		return []*sharedProgram{p}, nil
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
