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
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/meter"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/price"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
)

const (
	// costInterval is the interval at which the cost of functions is compared with the budget. The
	// comparison takes at most 1/costShare of a processor.
	costInterval = 50 * time.Millisecond
	costShare    = 50
	// freshInterval is the interval for a time of freshTime after a function was attached to,
	// which may be called millions of times a second, or detached from, which others may have to
	// follow.
	freshInterval = 5 * time.Millisecond
	freshTime     = 100 * time.Millisecond
)

// cost keeps the cost of functions within the budget, for each file alone: users of the machine can
// run files with the name in a rule, and must not spend the budget of others.
type cost struct {
	exporter *exporter
	prices   price.Table // nil until a rule selects functions; written with the exporter's mu
	share    float64
	metered  map[*target.File]*metered
	checked  time.Time
	wait     time.Duration // the time until the next check
	changed  time.Time     // when a function was last attached to or detached from
	past     spent         // of files that are closed
	now      costs         // for Collect, guarded by the exporter's mu
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
	*meter.Meter
	guard     *meter.Guard
	processor meter.Processor
	pids      map[int]bool
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

// of returns the metered file, which it creates.
func (c *cost) of(f *target.File) *metered {
	if c.metered[f] == nil {
		c.metered[f] = &metered{guard: meter.NewGuard(c.share), pids: map[int]bool{}}
	}
	return c.metered[f]
}

// meterRoom is the number of programs that a file can get in addition to those of its probes, when
// rules are added.
const meterRoom = 256

// sections adds the sections that meter a program of a file.
func (c *cost) sections(
	p *bpf.Probe, f *target.File, sections []*bpf.Section,
) (_ []*bpf.Section, err error) {
	m := c.of(f)
	if m.Meter == nil {
		room := min(len(f.Probes)+meterRoom, bpf.MaxMetered)
		env := &bpf.Env{Kernel: c.exporter.Machine.Kernel}
		if m.Meter, err = meter.New(env, c.prices, room); err != nil {
			return nil, err
		}
	}
	return m.Sections(p, sections)
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
// check. If restore is true, it may attach to a function again.
func (c *cost) check(restore bool) (next time.Duration) {
	now := time.Now()
	if elapsed := now.Sub(c.checked); elapsed < c.wait {
		return c.wait - elapsed
	}
	if len(c.metered) == 0 {
		return query.Rest
	}
	c.checked = now
	sum := c.past
	verdicts := map[*target.File]verdict{}
	for f, m := range c.metered {
		if m.Meter == nil {
			continue
		}
		used := m.processor.Used(slices.Collect(maps.Keys(m.pids)))
		if err := m.Read(); err != nil {
			c.exporter.Complaints.Complain(err.Error())
			continue
		}
		var v verdict
		v.over, v.taken, v.again = m.guard.Check(now, used, m.Units())
		if sum.add(m.guard.Spent()); v.again != nil || len(v.over) > 0 {
			verdicts[f] = v
		}
	}
	c.wait = costInterval
	if now.Sub(c.changed) < freshTime {
		c.wait = freshInterval
	}
	c.wait = max(c.wait, costShare*time.Since(now))
	for f, v := range verdicts {
		c.obey(f, v, restore)
		c.fresh()
	}
	c.show(sum, len(verdicts) > 0)
	return c.wait
}

// fresh shortens the interval for a while.
func (c *cost) fresh() {
	c.changed, c.wait = time.Now(), min(c.wait, freshInterval)
}

// verdict is the result of a Guard's Check.
type verdict struct {
	over  []*meter.Unit
	taken float64
	again *meter.Unit
}

func (c *cost) obey(f *target.File, v verdict, restore bool) {
	switch m := c.metered[f]; {
	case len(v.over) > 0:
		c.withdraw(f, m, v.over, v.taken)
	case restore:
		c.problem(f, c.exporter.engine.Restore(f, v.again.Keys))
	default:
		m.guard.Rest(v.again, c.checked)
	}
}

// withdraw detaches from functions of a file that are too expensive.
func (c *cost) withdraw(f *target.File, m *metered, over []*meter.Unit, taken float64) {
	keys := map[string]bool{}
	var names []string
	for _, u := range over {
		maps.Copy(keys, u.Keys)
		if m.guard.IsFirst(u) {
			names = append(names, u.Name)
		}
	}
	c.problem(f, c.exporter.engine.WithdrawFrom(f, keys))
	for _, r := range c.exporter.rules() {
		for _, u := range over {
			r.Unwatched(u.Probes, m.pids)
		}
	}
	c.exporter.mu.Lock()
	c.now.detaches += uint64(len(over))
	c.exporter.mu.Unlock()
	if len(names) > 0 {
		c.exporter.Warn("%s: detached from %s, because functions took %.3g %% of the program's processor time, but the budget is %.3g %%; they are tried again",
			f.Path, text.Some(names, 5), 100*taken, 100*c.share)
	}
}

func (c *cost) problem(f *target.File, err error) {
	if err != nil {
		c.exporter.Complaints.Complain(fmt.Sprintf("%s: %v", f.Path, err))
	}
}

// show updates the numbers that the exporter shows.
func (c *cost) show(sum spent, changed bool) {
	e := c.exporter
	var detached map[string]int
	if changed {
		detached = map[string]int{}
		for f, m := range c.metered {
			if m.Meter != nil {
				c.count(f, m, detached)
			}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.now.spent = sum; changed {
		c.now.detached = detached
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
	gone := false
	for f, m := range c.metered {
		if c.exporter.engine.Holds(f) {
			continue
		}
		if m.Meter != nil {
			c.past.add(m.guard.Spent())
			m.Meter.Close()
		}
		delete(c.metered, f)
		gone = true
	}
	if gone {
		c.show(c.now.spent, true)
	}
}

func (c *cost) close() {
	for _, m := range c.metered {
		if m.Meter != nil {
			m.Meter.Close()
		}
	}
}

// meteredKernel is an engine.Kernel that measures the cost of functions, in each file alone.
type meteredKernel struct {
	engine.Kernel
	*cost
}

func (m meteredKernel) PerFile(p *bpf.Probe) bool { return p.Function != nil }

func (m meteredKernel) Load(
	p *bpf.Probe, f *target.File, sections []*bpf.Section,
) (_ engine.Program, err error) {
	if p.Function != nil {
		if sections, err = m.sections(p, f, sections); err != nil {
			return nil, err
		}
	}
	return m.Kernel.Load(p, f, sections)
}

// Shape is the probe's own for a function.
func (m meteredKernel) Shape(
	p *bpf.Probe, sections []*bpf.Section,
) (shape string, cookie uint64) {
	shape, cookie = m.Kernel.Shape(p, sections)
	if p.Function != nil {
		shape = p.Key()
	}
	return shape, cookie
}

// Attach checks the budget too: attaching to many functions takes long, and meanwhile the attached
// ones may exceed it.
func (m meteredKernel) Attach(
	p engine.Program, f *target.File, sites []engine.Site, pid int,
) (engine.Links, error) {
	m.check(false)
	links, err := m.Kernel.Attach(p, f, sites, pid)
	if f.HasFunctions() {
		m.fresh()
	}
	return links, err
}
