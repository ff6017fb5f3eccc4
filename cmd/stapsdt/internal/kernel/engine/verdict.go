//go:build linux

package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// candidate is a probe of a file, and the place where it was found.
type candidate struct {
	*bpf.Probe
	key   string // bpf.Probe.Key
	place string // the file and a process
	file  *file
	alone bool // whether the file has programs of its own for the probe
}

// name returns the name of the probe, and its place.
func (c candidate) name() string { return fmt.Sprintf("%v in %s", c.Probe, c.place) }

func newCandidate(
	f *file, site sdt.Site, uses []probes.Use, selecting []*Subscription,
) candidate {
	c := candidate{Probe: NewProbe(f.File, site), place: f.Path, file: f}
	for _, s := range selecting {
		if start := s.Selector.Start(f.File, &site); start != nil {
			c.setStart(f, start)
			break
		}
	}
	c.key = c.Key()
	if len(uses) > 0 {
		c.place += fmt.Sprintf(" (process %d)", uses[0].PID)
	}
	return c
}

// setStart sets the start that the probe needs, which may be the probe itself.
func (c *candidate) setStart(f *file, start *sdt.Site) {
	if c.Start = c.Probe; start.Name != c.Name {
		c.Start = NewProbe(f.File, *start)
	}
}

// verdict is the permanent error of a probe for a subscription: the expression does not fit the
// probe, or the kernel rejects the program.
type verdict struct {
	candidate
	err error
}

func (v verdict) error() error { return fmt.Errorf("%s: %w", v.name(), v.err) }

func (v verdict) problem() error {
	return fmt.Errorf("%s is not included: %w", v.name(), v.err)
}

// exclude leaves a probe out for a subscription. Before a command runs, Settle decides whether that
// is an error. A refusal may end the engine.
func (e *Engine) exclude(s *Subscription, v verdict) error {
	var refused *rights.Error
	switch {
	case errors.As(v.err, &refused):
		return e.fatal(s, v.error())
	case e.options.Daemon || e.running:
		s.Problem(v.problem())
	default:
		s.excluded = append(s.excluded, v)
	}
	return nil
}

// include records for Settle that a probe is attached to for subscriptions. A start that only an
// end needs is no event of its own.
func (e *Engine) include(c candidate, subscriptions []*Subscription) {
	if e.options.Daemon || e.running {
		return
	}
	for _, s := range subscriptions {
		if s.Selector.Matches(c.Provider, c.Name) {
			s.included = append(s.included, c)
		}
	}
}

// reportRefused reports each verdict as a problem, but if many have the same reason, only the first
// and their number.
func (s *Subscription) reportRefused(all []verdict) {
	const most = 10
	same := map[string]int{}
	for _, v := range all {
		same[v.err.Error()]++
	}
	for _, v := range all {
		reason := v.err.Error()
		switch n := same[reason]; {
		case n > most:
			s.Problem(fmt.Errorf("%v and %d other probes are not included: %w", v.name(), n-1, v.err))
			same[reason] = 0
		case n > 0:
			s.Problem(v.problem())
		}
	}
}

// Settle decides, before Run, whether the excluded probes of a subscription are an error. They are
// if a spec has no other probe, unless an expression has excluded them, another spec has probes,
// and the specs are not needed together. Otherwise Settle reports them as problems, with a single
// line for all that do not fit an expression: a file of another user that does not fit must not
// keep the others from being traced.
func (e *Engine) Settle(s *Subscription) error {
	excluded, included := s.excluded, s.included
	s.excluded, s.included = nil, nil
	for _, spec := range s.Selector.Specs {
		matches := func(p *bpf.Probe) bool { return spec.Match(p.Provider, p.Name) }
		if slices.ContainsFunc(included, func(c candidate) bool { return matches(c.Probe) }) {
			continue
		}
		var all query.Unfit
		for _, v := range excluded {
			if matches(v.Probe) {
				all.Add(v.error())
			}
		}
		if err := all.Err(); err != nil && (len(included) == 0 || s.Together || !isUnfit(err)) {
			return err
		}
	}
	// A function with several returns is one probe, although each return can have a program of its
	// own.
	every, left := map[string]bool{}, map[string]bool{}
	for _, c := range included {
		every[c.name()] = true
	}
	var unfit query.Unfit
	var refused []verdict
	for _, v := range excluded {
		every[v.name()] = true
		if !isUnfit(v.err) {
			refused = append(refused, v)
			continue
		}
		unfit.Add(v.err)
		left[v.name()] = true
	}
	s.reportRefused(refused)
	unfit.Probes = len(left)
	if line := unfit.Take(len(every)); line != "" {
		s.Problem(errors.New(line))
	}
	return nil
}

// isUnfit reports whether an error means that an expression does not fit a probe.
func isUnfit(err error) bool {
	var wrong *expr.Error
	return errors.As(err, &wrong)
}
