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
	rule         *metricRule
	plan         *program.Latency
	open, totals *ebpf.Map
	goroutines   goroutines
	swept        time.Time
}

// loadProgram loads the program of a start or of an end.
func (o *operations) loadProgram(p *program.Probe, _ uint32) (*ebpf.Program, error) {
	m := o.rule
	if o.plan == nil {
		if err := o.prepare(); err != nil {
			return nil, err
		}
	}
	isStart, isEnd := m.specs[0].Match(p.Provider, p.Name), m.specs[1].Match(p.Provider, p.Name)
	switch {
	case isStart && isEnd:
		return nil, usagef("both %v and %v name it", m.specs[0], m.specs[1])
	case isStart:
		return o.plan.LoadStart(m.env, o.open, o.totals, p, 0)
	case m.Kind == rules.InFlight:
		return o.plan.LoadEndMetric(m.env, o.open, o.totals, p, nil, nil, 0, 0)
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
	return o.plan.LoadEndMetric(m.env, o.open, o.totals, p, metric, s.tables, 0, id)
}

// prepare decides what is evaluated where, and makes the tables.
func (o *operations) prepare() error {
	m := o.rule
	plan, err := program.NewLatency(m.specs[0].first, m.specs[1].first, program.Pairing{
		Key: m.Key, Where: m.conditions, By: m.by, AtStart: m.Kind == rules.InFlight,
	})
	if err != nil {
		return err
	}
	if o.open, o.totals, err = plan.NewTables(); err != nil {
		return mapError(err)
	}
	o.plan = plan
	return nil
}

func (o *operations) sweep() error { return sweep(o.open, &o.goroutines, &o.swept) }

func (o *operations) close() {
	o.open.Close()
	o.totals.Close()
	o.goroutines.Close()
}
