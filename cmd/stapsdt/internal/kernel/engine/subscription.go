//go:build linux

package engine

import (
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
)

// Subscriber receives the events of the probes that it selects.
type Subscriber interface {
	// Section returns the code for the events of a probe, or nil for none. It is called once for
	// each kind of probe (see bpf.Probe.Key), and again after a shortage.
	Section(p *bpf.Probe) (*bpf.Section, error)
	// Problem receives the errors that keep events from being seen.
	Problem(err error)
}

// Selection defines the probes that a subscriber selects.
type Selection struct {
	Selector *probes.Selector
	// Together means that nothing is attached to until each spec of the selector has a probe.
	Together bool
	// ProcessFound, if not nil, is called whenever the engine notices a process that has mapped a
	// file with selected probes, before it attaches to the probes.
	ProcessFound func(pid int) error
}

// Subscription is a subscriber of an engine.
type Subscription struct {
	Subscriber
	Selection
	id uint64
	// keyed by bpf.Probe.Key; nil after an error, which is reported once
	sections map[string]*bpf.Section
	sites    atomic.Int64
	attached atomic.Int64 // when a site was last attached to, as of time.Time.UnixNano, or 0
	missed   atomic.Uint64
	reached  atomic.Bool // whether a process may have fired while it was attached to
	removed  bool
	// excluded and included are the input of Settle.
	excluded []verdict
	included []candidate
}

// Sites returns the number of sites that are attached to. It may be called by any goroutine.
func (s *Subscription) Sites() int { return int(s.sites.Load()) }

// Attached reports whether any site has been attached to so far. It may be called by any goroutine.
func (s *Subscription) Attached() bool { return s.attached.Load() != 0 }

// AttachedAt returns when a site was last attached to, if Attached. It may be called by any
// goroutine.
func (s *Subscription) AttachedAt() time.Time { return time.Unix(0, s.attached.Load()) }

// Reached reports whether there has been a site that a process could still fire when it had been
// attached to. It may be called by any goroutine.
func (s *Subscription) Reached() bool { return s.reached.Load() }

// Missed returns the number of processes that ended before their selected probes were attached to,
// as far as it is known. It may be called by any goroutine.
func (s *Subscription) Missed() uint64 { return s.missed.Load() }

// section returns the section for a probe, which is nil after an error. After a shortage it can be
// called again.
func (s *Subscription) section(key string, p *bpf.Probe) (*bpf.Section, error) {
	if section, ok := s.sections[key]; ok {
		return section, nil
	}
	section, err := s.Section(p)
	if !stall.Passes(err) {
		s.sections[key] = section
	}
	return section, err
}

// ready reports whether the subscription may be attached.
func (s *Subscription) ready() bool { return !s.Together || s.Selector.Missing() == "" }
