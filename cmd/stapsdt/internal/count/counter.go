//go:build linux

package count

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"

	"github.com/cilium/ebpf"
)

// Probe is the subject of the counts of a probe.
type Probe struct{ Provider, Name string }

func (p Probe) String() string { return p.Provider + ":" + p.Name }

// Expressions are evaluated at each event.
type Expressions struct {
	// By are the expressions by whose values events are counted separately.
	By []string
	// Value is the expression whose values Buckets divide. Buckets is nil unless it is a
	// histogram.
	Value   string
	Buckets layout.Buckets
}

// Counter counts the events of the probes of a run. It is an engine.Subscriber.
type Counter struct {
	Tables[Probe]
	run         *run.Run
	expressions Expressions
}

// NewCounter returns a counter, of stacks if these are not nil.
func NewCounter(r *run.Run, e Expressions, stacks *Stacks) *Counter {
	return &Counter{Tables: Tables[Probe]{Stacks: stacks}, run: r, expressions: e}
}

// Attach attaches the counter to the probes that exist.
func (c *Counter) Attach() error {
	if err := c.run.Attach(c); err != nil {
		return err
	}
	c.run.Announce()
	return nil
}

// Selector implements engine.Subscriber.
func (c *Counter) Selector() *probes.Selector { return c.run.Selector }

// Together implements engine.Subscriber.
func (c *Counter) Together() bool { return c.run.Together }

// AsksProcesses implements engine.Subscriber: the functions of a process that exits soon have to
// be found now.
func (c *Counter) AsksProcesses() bool { return c.Stacks != nil }

// ProcessFound implements engine.Subscriber.
func (c *Counter) ProcessFound(pid int) error {
	c.Stacks.processes.Look(pid)
	return nil
}

// Problem implements engine.Subscriber.
func (c *Counter) Problem(err error) { c.run.Problem(err) }

// Section implements engine.Subscriber.
func (c *Counter) Section(p *bpf.Probe) (*bpf.Section, error) {
	e := &c.expressions
	a, err := bpf.NewAggregate(p, c.run.Where, e.By, e.Value, e.Buckets)
	if err != nil {
		return nil, err
	}
	if c.Stacks != nil {
		if err := p.StackErr(); err != nil {
			return nil, err
		}
		a.CountStacks(c.Stacks.kernel)
	}
	return c.Add(a, Probe{p.Provider, p.Name}, p.Name, func(table *ebpf.Map, id uint32) (*bpf.Section, error) {
		return a.Section(c.run.Env, table, id)
	})
}

// Report warns about events that are not included. what names the keys, of which there can be too
// many.
func (c *Counter) Report(what string) error {
	stats, err := layout.ReadStats(c.run.Env.Stats)
	if err != nil {
		return err
	}
	Lost(c.run, stats, what)
	return nil
}

// Lost warns about events that are not included in the tables of a run.
func Lost(r *run.Run, stats layout.Stats, what string) {
	if stats.Lost > 0 {
		r.Warn("%d events were lost, because there are too many different %s", stats.Lost, what)
	}
	r.Unevaluated(stats)
}
