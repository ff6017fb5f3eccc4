//go:build linux

package run

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/meter"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/price"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
)

const (
	// costInterval is the interval at which the cost of the probes is compared with the budget. The
	// comparison takes at most 1/costShare of a processor.
	costInterval = 50 * time.Millisecond
	costShare    = 20
	// maxStepped is the rate of events of single-stepped probes, per second, above which a warning is
	// printed.
	maxStepped = 100_000
)

// cost watches how much the probes of a run cost the programs. With a budget it detaches from probes that are too
// expensive. Without one it only warns, and measures nothing but the rate of the probes that the kernel single-steps.
type cost struct {
	run       *Run
	prices    price.Table
	meter     *meter.Meter // nil as long as no program is metered
	budget    *meter.Budget
	processor meter.Processor
	began     bool          // whether attaching has begun
	used      time.Duration // the processor time of the programs
	checked   time.Time
	wait      time.Duration // the time until the next check
	stepped   uint64        // events at the last check
	warned    bool
	start     time.Time                    // when attaching began
	withdrawn map[string]*query.Detachment // the detached probes, by name
}

// Detached returns the detachment of the first of some probes that was detached from, or nil. A
// probe has the form PROVIDER:NAME.
func (r *Run) Detached(probes ...string) *query.Detachment {
	for _, name := range probes {
		if d := r.cost.withdrawn[name]; d != nil {
			return d
		}
	}
	return nil
}

// newCost measures the prices of probes if there is a budget.
func newCost(r *Run, k bpf.Kernel) (c *cost, err error) {
	c = &cost{run: r, wait: time.Second, withdrawn: map[string]*query.Detachment{}}
	if r.Budget == 0 {
		return c, nil
	}
	c.budget, c.wait = meter.NewBudget(r.Budget), costInterval
	if c.prices, err = price.Measure(k); err != nil {
		return nil, err
	}
	if r.Verbose {
		r.Warn("processor time of an event, in addition to the work of its BPF program: %v", c.prices)
	}
	return c, nil
}

// metered is an engine.Kernel that counts the events of BPF programs.
type metered struct {
	engine.Kernel
	cost *cost
}

func (m metered) Load(
	p *bpf.Probe, f *target.File, sections []*bpf.Section,
) (engine.Program, error) {
	sections, err := m.cost.sections(p, sections)
	if err != nil {
		return nil, err
	}
	return m.Kernel.Load(p, f, sections)
}

// Attach checks the budget too: attaching to many probes takes long, and meanwhile the
// attached ones may exceed it.
func (m metered) Attach(
	p engine.Program, f *target.File, sites []engine.Site, pid int,
) (engine.Links, error) {
	if _, err := m.cost.check(); err != nil {
		return nil, err
	}
	return m.Kernel.Attach(p, f, sites, pid)
}

// Shape is the probe's own if its events are counted.
func (m metered) Shape(p *bpf.Probe, sections []*bpf.Section) (shape string, cookie uint64) {
	shape, cookie = m.Kernel.Shape(p, sections)
	if m.cost.counts(p) {
		shape = p.Key()
	}
	return shape, cookie
}

// counts reports whether the cost depends on the events of a probe.
func (c *cost) counts(p *bpf.Probe) bool {
	return c.budget != nil || p.Instruction().Stepped() && (c.meter == nil || !c.meter.Full())
}

// sections adds the section that counts a program's events, if the cost depends on them.
func (c *cost) sections(p *bpf.Probe, sections []*bpf.Section) (_ []*bpf.Section, err error) {
	if !c.counts(p) {
		return sections, nil
	}
	if c.meter == nil {
		if c.meter, err = meter.New(c.run.Env, c.prices, bpf.MaxMetered); err != nil {
			return nil, err
		}
		c.meter.Whole = c.run.Whole
	}
	return c.meter.Sections(p, sections)
}

// check compares the cost of the probes with the budget, if the interval is over, and returns the time until the next
// check.
func (c *cost) check() (next time.Duration, err error) {
	if c.budget == nil && c.meter == nil {
		return query.Rest, nil // the engine wakes no earlier than without this
	}
	now := time.Now()
	elapsed := now.Sub(c.checked)
	if c.began && elapsed < c.wait {
		return c.wait - elapsed, nil
	}
	if !c.began {
		c.start = now
	}
	c.checked, c.began = now, true
	if c.budget != nil {
		c.used = c.processor.Used(c.run.processes.List())
	}
	if c.meter == nil {
		return c.wait, nil
	}
	if err := c.meter.Read(); err != nil {
		return 0, err
	}
	if c.budget == nil {
		c.warn(elapsed, c.meter.Units())
		return c.wait, nil
	}
	over, taken := c.budget.Check(now, c.used, c.meter.Units())
	c.wait = max(costInterval, costShare*time.Since(now))
	if len(over) == 0 {
		return c.wait, nil
	}
	return c.wait, c.withdraw(over, taken)
}

// warn warns once if probes that the kernel single-steps have too many events.
func (c *cost) warn(elapsed time.Duration, units []*meter.Unit) {
	var count uint64
	for _, u := range units {
		count += u.Count
	}
	rate := float64(count-c.stepped) / elapsed.Seconds()
	c.stepped = count
	if rate > maxStepped && !c.warned {
		c.warned = true
		c.run.Warn("%.0f events per second come from probes that the kernel single-steps, which slows the program down: see stapsdt list -v, or limit the cost with --budget", rate)
	}
}

// withdraw detaches from probes that have taken too much of the processor time.
func (c *cost) withdraw(units []*meter.Unit, taken float64) error {
	keys := map[string]bool{}
	var names, probes []string
	for _, u := range units {
		names, probes = append(names, u.Name), append(probes, u.Probes...)
		for key := range u.Keys {
			keys[key] = true
		}
	}
	now := time.Now()
	for _, name := range probes {
		c.withdrawn[name] = &query.Detachment{At: now.UTC(), After: now.Sub(c.start)}
	}
	err := c.run.engine.Withdraw(keys)
	c.run.Warn("detached from %s, because the probes took %s of the program's processor time, but --budget allows %s",
		text.Some(names, 5), percent(taken), percent(c.run.Budget))
	if c.run.Format != query.JSON || err != nil {
		return err
	}
	return render.NewEncoder(c.run.Out).Encode(struct {
		Time     time.Time   `json:"time"`
		Detached []string    `json:"detached"`
		Cost     json.Number `json:"cost"`
		Budget   json.Number `json:"budget"`
	}{now.UTC(), probes, part(taken), part(c.run.Budget)})
}

// part formats a share of the processor time for programs.
func part(share float64) json.Number { return json.Number(fmt.Sprintf("%.6g", share)) }

// percent formats a share of the processor time for people.
func percent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }

// exhausted reports whether every probe was detached to keep the budget.
func (c *cost) exhausted() bool { return len(c.withdrawn) > 0 && c.run.subscription.Sites() == 0 }

// report prints the total cost of the probes.
func (c *cost) report() error {
	if c.budget == nil || c.meter == nil {
		return nil
	}
	if err := c.meter.Read(); err != nil {
		return err
	}
	used := c.processor.Used(c.run.processes.List())
	var total time.Duration
	for _, u := range c.meter.Units() {
		total += u.Cost
	}
	if used == 0 {
		return nil // the program has ended before it was looked at
	}
	c.run.Warn("the probes took %v of %v of the program's processor time, %s", total.Round(time.Microsecond), used.Round(time.Microsecond),
		percent(float64(total)/float64(used)))
	return nil
}

func (c *cost) close() {
	if c.meter != nil {
		c.meter.Close()
	}
}

// watched is an engine.Ticker that wraps another and checks the cost while it runs.
type watched struct {
	engine.Ticker
	cost *cost
}

func (w watched) Tick() (next time.Duration, more bool, err error) {
	next, more, err = w.Ticker.Tick()
	if err != nil || !more {
		return next, more, err
	}
	due, err := w.cost.check()
	return min(next, due), !w.cost.exhausted(), err
}
