//go:build linux

package count

import (
	"context"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/run"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/source"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/stacks"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
)

// Counter counts the events of the probes of a run. It is an engine.Subscriber.
type Counter struct {
	Tables[Probe]
	run         *run.Run
	expressions Expressions
}

// NewCounter returns a counter. It counts stacks if of is not nil.
func NewCounter(r *run.Run, e Expressions, of *stacks.Stacks) *Counter {
	detached := func(p Probe) *query.Detachment { return r.Detached(p.String()) }
	tables := Tables[Probe]{Stacks: of, Detached: detached}
	return &Counter{Tables: tables, run: r, expressions: e}
}

// Attach attaches the counter to the probes that exist.
func (c *Counter) Attach() error {
	var found func(pid int) error // finds the functions of a process now, because it may exit soon
	if c.Stacks != nil {
		found = c.processFound
	}
	if err := c.run.Attach(c, found); err != nil {
		return err
	}
	c.run.Announce()
	return nil
}

func (c *Counter) processFound(pid int) error {
	c.Stacks.Look(pid)
	return nil
}

func (c *Counter) Problem(err error) { c.run.Problem(err) }

func (c *Counter) Section(p *bpf.Probe) (*bpf.Section, error) {
	counting := c.expressions.counting()
	counting.Where = c.run.Where
	var table *layout.StackTable
	if c.Stacks != nil {
		if err := p.StackErr(); err != nil {
			return nil, err
		}
		table = c.Stacks.Table
	}
	a, err := bpf.NewAggregate(p, counting, table)
	if err != nil {
		return nil, err
	}
	return c.Add(
		a,
		Probe{p.Provider, p.Name},
		p.Name,
		func(rows *layout.Tables, id uint32) (*bpf.Section, error) {
			return a.Section(c.run.Env, rows, id)
		},
	)
}

// runTraced counts the events of processes.
func (c *reporter) runTraced(ctx context.Context, config query.Config, route source.Route) error {
	r, err := run.New(c.Console, config, run.Options{
		Machine: route.Machine, Exprs: c.options.exprs(),
	})
	if err != nil {
		return source.Refuse(err, &config)
	}
	defer r.Close()
	counter := NewCounter(r, c.options.Expressions, nil)
	defer counter.Close()
	c.results = counter
	if err := counter.Attach(); err != nil {
		return err
	}
	if err := r.Wait(ctx, c); err != nil {
		return err
	}
	return c.finish()
}

// Report warns of events that are not included. what names the keys if there were too many
// different ones.
func (c *Counter) Report(what string) error {
	stats, err := layout.ReadStats(c.run.Env.Stats)
	if err != nil {
		return err
	}
	return Report(c.run, stats, what)
}

// Report warns of events that are not included in the tables of a run, and returns the error of the
// run's Report.
func Report(r *run.Run, stats layout.Stats, what string) error {
	if stats.Lost > 0 {
		r.Warn("%d events were lost, because there are too many different %s", stats.Lost, what)
	}
	return r.Report(stats)
}
