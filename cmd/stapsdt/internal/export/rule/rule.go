//go:build linux

// Package rule holds the parts that all rules of an exporter share.
package rule

import (
	"fmt"
	"os/user"
	"strconv"
	"sync/atomic"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rules"
)

// The expressions that identify the process.
const (
	Executable = "executable"
	Cgroup     = "cgroup"
)

// Host is the part of the exporter that rules use.
type Host struct {
	*console.Console
	Complaints *Complaints
	Machine    *bpf.Machine
	Cgroups    *cgroup.Groups
	// File is the path of the rules, for messages.
	File string
	// Spans receives the spans. It never waits.
	Spans func(expose.Span)
}

// Base is the part that all rules share: the selected probes, and a counter of problems.
type Base struct {
	*Host
	Label        string // used in the exporter's own metrics and in messages
	Env          *bpf.Env
	Selection    engine.Selection
	Subscription *engine.Subscription
	// Problems is the number of problems.
	Problems atomic.Uint64

	cgroups string // the pattern of the control groups that the rule selects
}

// Open sets up everything that does not depend on the probes. label names the rule in messages and
// in the exporter's own metrics.
func (b *Base) Open(h *Host, label string, s *rules.Select, specs []string) (err error) {
	b.Host, b.Label = h, label
	if b.Selection.Selector, err = probes.NewSelector(specs, nil); err != nil {
		return err
	}
	if b.Env, err = h.Machine.Env(); err != nil {
		return err
	}
	if s.User != "" {
		uid, err := userNumber(s.User)
		if err != nil {
			return err
		}
		b.Env.User = &uid
	}
	b.Env.Executable = bpf.NewPattern(s.Executable)
	if s.Cgroup != "" {
		b.cgroups = s.Cgroup
		if b.Env.Cgroups, err = bpf.NewCgroups(); err != nil {
			return bpf.MapError(err)
		}
		b.Regroup(h.Cgroups.All())
	}
	return nil
}

func userNumber(name string) (uint32, error) {
	if uid, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(uid), nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return 0, fmt.Errorf("the user %q is unknown here: use the UID", name)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	return uint32(uid), err
}

// Common returns the part that all rules share.
func (b *Base) Common() *Base { return b }

// Problem implements engine.Subscriber.
func (b *Base) Problem(err error) {
	b.Problems.Add(1)
	b.Complaints.Complain(b.Label + ": " + err.Error())
}

// Close releases everything.
func (b *Base) Close() {
	if b.Env != nil {
		b.Env.Stats.Close()
		b.Env.Cgroups.Close()
	}
}
