//go:build linux

package main

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/program"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rules"

	"github.com/cilium/ebpf"
)

// operations are those that a rule measures from their start to their end.
type operations struct {
	rule       *metricRule
	plan       *program.Latency
	tables     *program.OperationTables
	seen       *ebpf.Map // of InFlight with labels, or nil
	goroutines goroutines
	swept      time.Time
}

// section returns what is done at a start or at an end.
func (o *operations) section(p *program.Probe) (*program.Section, error) {
	m := o.rule
	if o.plan == nil {
		if err := o.prepare(); err != nil {
			return nil, err
		}
	}
	start, end := m.selector.Specs[0], m.selector.Specs[1]
	isStart, isEnd := start.Match(p.Provider, p.Name), end.Match(p.Provider, p.Name)
	switch {
	case isStart && isEnd:
		return nil, usagef("both %v and %v name it", start, end)
	case isStart:
		return o.plan.Start(m.env, program.Operations{OperationTables: o.tables}, p)
	case m.Kind == rules.InFlight:
		return o.plan.EndOnly(m.env, program.Operations{OperationTables: o.tables}, p)
	}
	metric, err := o.plan.NewEndMetric(p, m.bounds)
	if err != nil {
		return nil, err
	}
	s := &shape{Metric: metric, scale: m.Scale}
	id, err := m.shape(s)
	if err != nil {
		return nil, err
	}
	return o.plan.EndMetric(m.env, program.Operations{OperationTables: o.tables}, metric, s.tables, id)
}

// prepare decides what is evaluated where, and makes the tables.
func (o *operations) prepare() error {
	m := o.rule
	plan, err := program.NewLatency(m.selector.Specs[0].First, m.selector.Specs[1].First, program.Pairing{
		Key: m.Key, Where: m.conditions, By: m.by, AtStart: m.Kind == rules.InFlight,
	})
	if err != nil {
		return err
	}
	if o.tables, err = plan.NewTables(); err != nil {
		return program.MapError(err)
	}
	if m.Kind == rules.InFlight && len(plan.Open) > 0 {
		if o.seen, err = plan.NewSeen(m.Series); err != nil {
			return program.MapError(err)
		}
	}
	o.plan = plan
	return nil
}

func (o *operations) sweep() error {
	if o.seen != nil && time.Since(o.swept) >= sweeping {
		if _, err := o.labels(); err != nil {
			return err
		}
	}
	return sweep(o.tables, &o.goroutines, &o.swept)
}

// labels returns the labels of the operations that processes have started that still live, and
// forgets those of others.
func (o *operations) labels() (all []program.Seen, err error) {
	if o.seen == nil {
		return nil, nil
	}
	seen, err := program.ReadSeen(o.seen)
	if err != nil {
		return nil, err
	}
	lives := living{}
	for _, s := range seen {
		if lives.has(s.PID) {
			all = append(all, s)
		} else {
			_ = o.seen.Delete(s.Key) // a new process can have the PID, and is seen again
		}
	}
	return all, nil
}

func (o *operations) close() {
	o.tables.Close()
	o.seen.Close()
	o.goroutines.Close()
}
