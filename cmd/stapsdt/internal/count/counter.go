//go:build linux

package count

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
)

// Probe is the subject of the counts of a probe.
type Probe struct{ Provider, Name string }

func (p Probe) String() string { return p.Provider + ":" + p.Name }

// Expressions are evaluated at each event.
type Expressions struct {
	// By are the expressions by whose values events are counted separately.
	By []string
	// Value is the expression whose values are summed, or "". Buckets divides the values of a histogram, and is nil
	// otherwise.
	Value   string
	Buckets query.Buckets
}

// sums reports whether values are only summed.
func (e *Expressions) sums() bool { return e.Value != "" && e.Buckets == nil }

// counting returns the part of a program that the expressions define.
func (e *Expressions) counting() query.Counting {
	c := query.Counting{By: e.By, Value: e.Value, For: "a histogram", Buckets: e.Buckets}
	if e.sums() {
		c.For = "a sum"
	}
	return c
}

// Counter counts the events of the probes of a run. It is an engine.Subscriber.
type Counter struct {
	Tables[Probe]
	run         *run.Run
	expressions Expressions
}

// NewCounter returns a counter. It counts stacks if stacks is not nil.
func NewCounter(r *run.Run, e Expressions, stacks *Stacks) *Counter {
	detached := func(p Probe) *query.Detachment { return r.Detached(p.String()) }
	tables := Tables[Probe]{Stacks: stacks, Detached: detached}
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
	c.Stacks.processes.Look(pid)
	return nil
}

func (c *Counter) Problem(err error) { c.run.Problem(err) }

func (c *Counter) Section(p *bpf.Probe) (*bpf.Section, error) {
	counting := c.expressions.counting()
	counting.Where = c.run.Where
	var stacks *layout.StackTable
	if c.Stacks != nil {
		if err := p.StackErr(); err != nil {
			return nil, err
		}
		stacks = c.Stacks.kernel
	}
	a, err := bpf.NewAggregate(p, counting, stacks)
	if err != nil {
		return nil, err
	}
	return c.Add(a, Probe{p.Provider, p.Name}, p.Name, func(rows *layout.Tables, id uint32) (*bpf.Section, error) {
		return a.Section(c.run.Env, rows, id)
	})
}

// Report warns of events that are not included. what names the keys if there were too many different ones.
func (c *Counter) Report(what string) error {
	stats, err := layout.ReadStats(c.run.Env.Stats)
	if err != nil {
		return err
	}
	Lost(c.run, stats, what)
	return nil
}

// Lost warns of events that are not included in the tables of a run.
func Lost(r *run.Run, stats layout.Stats, what string) {
	if stats.Lost > 0 {
		r.Warn("%d events were lost, because there are too many different %s", stats.Lost, what)
	}
	r.Report(stats)
}
