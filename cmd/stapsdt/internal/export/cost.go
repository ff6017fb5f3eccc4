//go:build linux

package export

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rules"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/meter"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/price"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
)

// cost keeps the cost of functions within the budget, for each file alone: users of the machine can
// run files with the name in a rule, and must not spend the budget of others.
type cost struct {
	exporter *exporter
	keeper   meter.Keeper
	prices   price.Table // nil until a rule selects functions; written with the exporter's mu
	share    float64
	metered  map[*target.File]*metered
	past     spent     // of files that are closed
	shown    time.Time // the time of the check whose results are in now
	changed  bool      // whether now.detached is out of date
	now      costs     // for Collect, guarded by the exporter's mu
}

// spent is the cost of functions, and the processor time of the processes of their files.
type spent struct{ cost, used time.Duration }

func (s *spent) add(cost, used time.Duration) { s.cost, s.used = s.cost+cost, s.used+used }

// costs are the numbers that the exporter shows.
type costs struct {
	spent
	detached map[string]int // the number of detached functions, by the label of the rule
	detaches uint64
}

// metered is a file with functions whose cost is measured.
type metered struct {
	meter.Account
	guard *meter.Guard
	pids  map[int]bool
}

// prepare measures the prices of events if a rule selects functions.
func (c *cost) prepare(file *rules.File) error {
	c.share = file.Budget
	for _, m := range c.metered {
		m.guard.Set(c.share)
	}
	if c.prices != nil || !file.Functions() {
		return nil
	}
	prices, err := price.Measure(c.exporter.Machine.Kernel)
	c.exporter.mu.Lock()
	defer c.exporter.mu.Unlock()
	c.prices = prices
	return err
}

// meterRoom is the number of programs that a file can get in addition to those of its probes, when
// rules are added.
const meterRoom = 256

// of returns the metered file, which it creates.
func (c *cost) of(f *target.File) *metered {
	if c.metered[f] == nil {
		room := min(len(f.Probes)+meterRoom, bpf.MaxMetered)
		m := &metered{guard: meter.NewGuard(c.share), pids: map[int]bool{}}
		m.Meter = meter.New(&bpf.Env{Kernel: c.exporter.Machine.Kernel}, c.prices, room)
		m.Judge, m.File = m.guard, f
		c.metered[f] = m
	}
	return c.metered[f]
}

// Meters implements meter.Owner.
func (c *cost) Meters(p *bpf.Probe) bool { return p.Function != nil }

// Account implements meter.Owner.
func (c *cost) Account(f *target.File) *meter.Account { return &c.of(f).Account }

// Accounts implements meter.Owner.
func (c *cost) Accounts() (all []*meter.Account) {
	for _, m := range c.metered {
		m.PIDs = slices.Collect(maps.Keys(m.pids))
		all = append(all, &m.Account)
	}
	return all
}

// found notes the processes of files. If all is true, they have no others.
func (c *cost) found(found *probes.Found, all bool) {
	if all {
		for _, m := range c.metered {
			clear(m.pids)
		}
	}
	for _, f := range found.Files {
		if !f.HasFunctions() {
			continue
		}
		for _, u := range found.Uses[f] {
			c.of(f).pids[u.PID] = true
		}
	}
}

// follows reports whether a process that maps a file may run a program with selected functions.
func (c *cost) follows(m *proc.Mapping) bool {
	if c.prices == nil {
		return false
	}
	name := path.Base(m.Path)
	return slices.ContainsFunc(c.exporter.executables(), func(pattern string) bool {
		ok, _ := path.Match(pattern, name)
		return ok
	})
}

// check compares the costs with the budget, if that is due, and returns the time until the next
// check.
func (c *cost) check() (next time.Duration) {
	next, err := c.keeper.Check(true)
	if err != nil {
		c.exporter.Complaints.Complain(err.Error())
	}
	if c.shown != c.keeper.Checked {
		c.shown = c.keeper.Checked
		c.show()
	}
	return next
}

// Obey implements meter.Owner: it detaches from functions of a file that are too expensive, or
// attaches to one again.
func (c *cost) Obey(a *meter.Account, v meter.Verdict) error {
	c.changed = true
	f, m := a.File, c.metered[a.File]
	if v.Again != nil {
		m.guard.Try(v.Again, c.keeper.Checked)
		c.problem(f, c.exporter.engine.Restore(f, v.Again.Keys))
		return nil
	}
	keys := map[string]bool{}
	var names []string
	for _, u := range v.Over {
		maps.Copy(keys, u.Keys)
		if m.guard.IsFirst(u) {
			names = append(names, u.Name)
		}
	}
	c.problem(f, c.exporter.engine.WithdrawFrom(f, keys))
	for _, r := range c.exporter.rules() {
		for _, u := range v.Over {
			r.Unwatched(u.Probes, m.pids)
		}
	}
	c.exporter.mu.Lock()
	c.now.detaches += uint64(len(v.Over))
	c.exporter.mu.Unlock()
	if len(names) > 0 {
		c.exporter.Warn("%s: detached from %s, because functions took %.3g %% of the program's processor time, but the budget is %.3g %%; they are tried again",
			f.Path, text.Some(names, 5), 100*v.Taken, 100*c.share)
	}
	return nil
}

func (c *cost) problem(f *target.File, err error) {
	if err != nil {
		c.exporter.Complaints.Complain(fmt.Sprintf("%s: %v", f.Path, err))
	}
}

// show updates the numbers that the exporter shows.
func (c *cost) show() {
	e, sum, detached := c.exporter, c.past, map[string]int{}
	for f, m := range c.metered {
		sum.add(m.guard.Spent())
		if c.changed {
			c.count(f, m, detached)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.now.spent = sum; c.changed {
		c.now.detached, c.changed = detached, false
	}
}

// count counts the detached functions of a file in each rule that selects them.
func (c *cost) count(f *target.File, m *metered, detached map[string]int) {
	for _, u := range m.Units() {
		if !m.guard.Rests(u) {
			continue
		}
		for _, r := range c.exporter.rules() {
			if selects(r.Common().Selection.Selector, f, u) {
				detached[r.Common().Label]++
			}
		}
	}
}

// selects reports whether a selector selects a probe of a unit in a file.
func selects(s *probes.Selector, f *target.File, u *meter.Unit) bool {
	for i := range f.Probes {
		p := &f.Probes[i]
		if slices.Contains(u.Probes, p.Provider+":"+p.Name) && s.Selects(f, p) {
			return true
		}
	}
	return false
}

// purge drops the files that are closed.
func (c *cost) purge() {
	for f, m := range c.metered {
		if c.exporter.engine.Holds(f) {
			continue
		}
		c.past.add(m.guard.Spent())
		_ = m.Close()
		delete(c.metered, f)
		c.changed = true
	}
	if c.changed {
		c.show()
	}
}

func (c *cost) close() {
	for _, m := range c.metered {
		_ = m.Close()
	}
}
