//go:build linux

package main

import (
	"sync/atomic"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/program"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rules"
)

// rule is what metrics and spans have in common.
type rule interface {
	engine.Subscriber
	base() *ruleBase
	// sweep forgets what belongs to processes that have ended.
	sweep() error
	close()
}

// ruleBase is what every rule has: its probes, and what keeps their events from being seen.
type ruleBase struct {
	exporter     *exporter
	name         string // in messages, and of the exporter's own metrics
	selector     *probes.Selector
	env          *program.Env
	groups       *groupSet // the control groups that the rule selects, or nil for all
	subscription *engine.Subscription
	problems     atomic.Uint64
}

// prepare makes what does not depend on the probes.
func (r *ruleBase) prepare(e *exporter, name string, selected *rules.Select, specs []string) (err error) {
	r.exporter, r.name = e, name
	if r.selector, err = probes.NewSelector(specs, nil); err != nil {
		return err
	}
	if r.env, err = e.machine.env(); err != nil || selected.Cgroup == "" {
		return err
	}
	if r.groups, err = newGroupSet(selected.Cgroup, e.cgroups); err == nil {
		r.env.Cgroups = r.groups.set
	}
	return err
}

func (r *ruleBase) base() *ruleBase { return r }

// Selector implements engine.Subscriber.
func (r *ruleBase) Selector() *probes.Selector { return r.selector }

// Problem implements engine.Subscriber.
func (r *ruleBase) Problem(err error) {
	r.problems.Add(1)
	r.exporter.complain(r.name + ": " + err.Error())
}

func (r *ruleBase) close() {
	if r.env != nil {
		r.env.Stats.Close()
	}
	r.groups.close()
}
