//go:build linux

package run

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/meter"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/price"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
)

// loopShare is the share of the programs' processor time that lines in loops may take in a run
// without --budget, and loopLeast the processor time that they may take of each second anyway.
const (
	loopShare = 0.25
	loopLeast = 50 * time.Millisecond
)

// maxStepped is the rate of events of single-stepped probes, per second, above which a warning is
// printed.
const maxStepped = 100_000

// cost watches how much the probes of a run cost the programs. With a budget it detaches from
// probes that are too expensive. Without one, it detaches only from lines in loops, and warns of
// the rate of the probes that the kernel single-steps.
type cost struct {
	run       *Run
	share     float64 // of the processor time, or 0 if nothing is limited
	loops     bool    // whether only lines in loops are limited
	keeper    *meter.Keeper
	account   meter.Account
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
	c = &cost{run: r, withdrawn: map[string]*query.Detachment{}}
	c.keeper = &meter.Keeper{
		Kernel: engine.BPF{Kernel: k}, Owner: c, Interval: time.Second, Share: 20,
	}
	var prices price.Table
	warns := &stepped{Console: r.Console}
	hasLines := slices.ContainsFunc(r.Specs, spec.Choice.IsLine)
	switch {
	case r.Budget > 0:
		c.share, c.account.Judge = r.Budget, meter.NewBudget(r.Budget, 0)
	case hasLines && len(r.PIDs) > 0:
		c.share, c.loops = loopShare, true
		c.account.Judge = &ofLoops{warns, meter.NewBudget(loopShare, loopLeast)}
	default:
		c.account.Judge = warns
	}
	if c.share > 0 {
		c.keeper.Interval = meter.Interval
		if prices, err = price.Measure(k); err != nil {
			return nil, err
		}
	}
	c.account.Meter = meter.New(r.Env, prices, bpf.MaxMetered)
	c.account.Whole = r.Whole
	if r.Verbose && prices != nil {
		r.Warn("processor time of an event, in addition to the work of its BPF program: %v", prices)
	}
	return c, nil
}

// Meters implements meter.Owner.
func (c *cost) Meters(p *bpf.Probe) bool {
	if c.run.Budget > 0 {
		return c.run.Budget < 1 || !c.account.Full()
	}
	watched := c.loops && p.InLoop() || p.Instruction().Stepped()
	return watched && !c.account.Full()
}

// Account implements meter.Owner.
func (c *cost) Account(*target.File) *meter.Account { return &c.account }

// Accounts implements meter.Owner.
func (c *cost) Accounts() []*meter.Account {
	switch {
	case c.share > 0:
		c.account.PIDs = c.run.processes.List()
	case len(c.account.Units()) == 0:
		return nil
	}
	return []*meter.Account{&c.account}
}

// stepped is a meter.Judge that warns once if probes that the kernel single-steps have too many
// events.
type stepped struct {
	*console.Console
	at     time.Time
	events uint64 // until at
	warned bool
}

// Check implements meter.Judge.
func (s *stepped) Check(now time.Time, _ time.Duration, units []*meter.Unit) (v meter.Verdict) {
	var count uint64
	for _, u := range units {
		count += u.Count
	}
	rate := float64(count-s.events) / now.Sub(s.at).Seconds()
	s.at, s.events = now, count
	if rate > maxStepped && !s.warned {
		s.warned = true
		s.Warn("%.0f events per second come from probes that the kernel single-steps, which slows the program down: see stapsdt list -v, or limit the cost with --budget", rate)
	}
	return v
}

// ofLoops is a meter.Judge that keeps the lines in loops within a budget, and warns of other probes
// like stepped.
type ofLoops struct {
	*stepped
	budget *meter.Budget
}

// Check implements meter.Judge.
func (o *ofLoops) Check(now time.Time, used time.Duration, units []*meter.Unit) meter.Verdict {
	var loops, others []*meter.Unit
	for _, u := range units {
		if u.Loop {
			loops = append(loops, u)
		} else {
			others = append(others, u)
		}
	}
	o.stepped.Check(now, used, others)
	return o.budget.Check(now, used, loops)
}

// Obey implements meter.Owner: it detaches from probes that have taken too much of the processor
// time.
func (c *cost) Obey(_ *meter.Account, v meter.Verdict) error {
	keys := map[string]bool{}
	var names, probes []string
	for _, u := range v.Over {
		names, probes = append(names, u.Name), append(probes, u.Probes...)
		for key := range u.Keys {
			keys[key] = true
		}
	}
	now := time.Now()
	for _, name := range probes {
		c.withdrawn[name] = &query.Detachment{At: now.UTC(), After: now.Sub(c.keeper.Began)}
	}
	err := c.run.engine.Withdraw(keys)
	limit := "--budget allows " + percent(c.share)
	if c.loops {
		limit = "lines in loops may take " + percent(c.share) + ": --budget 100% lifts this limit"
	}
	c.run.Warn("detached from %s, because the probes took %s of the program's processor time, but %s",
		text.Some(names, 5), percent(v.Taken), limit)
	if c.run.Format != query.JSON || err != nil {
		return err
	}
	object := JSONDetached{now.UTC(), probes, part(v.Taken), part(c.share)}
	return render.NewEncoder(c.run.Out).Encode(object)
}

// JSONDetached tells in JSON that probes were detached to keep the budget.
type JSONDetached struct {
	Time     time.Time   `json:"time" doc:"at which the line was printed"`
	Detached []string    `json:"detached" doc:"PROVIDER:PROBE of each"`
	Cost     json.Number `json:"cost" doc:"part of the processor time; that all probes took"`
	Budget   json.Number `json:"budget" doc:"part of the processor time; that they may take"`
}

// part formats a share of the processor time for programs.
func part(share float64) json.Number { return json.Number(fmt.Sprintf("%.6g", share)) }

// percent formats a share of the processor time for people.
func percent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }

// exhausted reports whether every probe was detached to keep the budget.
func (c *cost) exhausted() bool { return len(c.withdrawn) > 0 && c.run.subscription.Sites() == 0 }

// report prints the total cost of the probes.
func (c *cost) report() error {
	a := &c.account
	if c.run.Budget == 0 || len(a.Units()) == 0 {
		return nil
	}
	if err := a.Read(); err != nil {
		return err
	}
	used := a.Used(c.run.processes.List())
	var total time.Duration
	for _, u := range a.Units() {
		total += u.Cost
	}
	if used == 0 {
		return nil // the program has ended before it was looked at
	}
	c.run.Warn("the probes took %v of %v of the program's processor time, %s", total.Round(time.Microsecond), used.Round(time.Microsecond),
		percent(float64(total)/float64(used)))
	return nil
}

func (c *cost) close() { _ = c.account.Close() }

// watched is an engine.Ticker that wraps another. While it runs, it releases the COMMAND, and
// checks the cost and the ends of processes.
type watched struct {
	engine.Ticker
	run *Run
}

func (w watched) Tick() (next time.Duration, more bool, err error) {
	next, more, err = w.Ticker.Tick()
	if err != nil || !more {
		return next, more, err
	}
	if err := w.run.release(); err != nil {
		return next, more, err
	}
	if ends := w.run.ends; ends != nil {
		if err := ends.Purge(); err != nil {
			return next, more, err
		}
	}
	due, err := w.run.cost.keeper.Check(true)
	return min(next, due, w.run.exits.check()), !w.run.cost.exhausted(), err
}
