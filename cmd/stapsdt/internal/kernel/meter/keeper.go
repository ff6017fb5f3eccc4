//go:build linux

package meter

import (
	"cmp"
	"errors"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
)

// Account has the cost of some programs, and the processor time of their processes.
type Account struct {
	*Meter
	Judge
	Processor
	PIDs []int        // the existing processes
	File *target.File // nil for the programs of all files
}

// Judge decides by the processor time of processes until now whether units are too expensive.
type Judge interface {
	Check(now time.Time, used time.Duration, units []*Unit) Verdict
}

// Verdict is the decision of a Judge.
type Verdict struct {
	// Over are the units that have to be detached. Taken is the share of the processor time that
	// all units have taken, if any is over.
	Over  []*Unit
	Taken float64
	// Again is a unit that can be attached again, or nil.
	Again *Unit
}

// Owner is a run or an exporter whose programs are metered.
type Owner interface {
	// Meters reports whether the cost depends on the events of a probe.
	Meters(p *bpf.Probe) bool
	// Account returns the account of a program of a file.
	Account(f *target.File) *Account
	// Accounts returns all accounts with their processes. It returns none if nothing is metered,
	// and a program that comes may be noticed after query.Rest.
	Accounts() []*Account
	// Obey carries out a verdict.
	Obey(a *Account, v Verdict) error
}

const (
	// Interval is the interval at which costs are compared with budgets.
	Interval = 50 * time.Millisecond
	// freshInterval is the interval of a Keeper by file for a time of freshTime after a function
	// was attached to, which may be called millions of times a second, or detached from, which
	// others may have to follow.
	freshInterval = 5 * time.Millisecond
	freshTime     = 100 * time.Millisecond
)

// Keeper is an engine.Kernel that meters the programs of its owner, and keeps their cost within
// budgets.
type Keeper struct {
	engine.Kernel
	Owner
	ByFile bool // whether each file has an account of its own
	// A check takes at most 1/Share of a processor.
	Interval, Share time.Duration

	Began, Checked time.Time     // when the first and the last check began
	changed        time.Time     // when a function was last attached to or detached from
	wait           time.Duration // the time between the last check and the next
}

// Check compares the costs with the budgets, if that is due, and returns the time until the next
// check. If restore is true, a unit may be attached again.
func (k *Keeper) Check(restore bool) (next time.Duration, err error) {
	now := time.Now()
	if elapsed := now.Sub(k.Checked); elapsed < k.wait {
		return k.wait - elapsed, nil
	}
	k.Began, k.Checked = cmp.Or(k.Began, now), now
	accounts := k.Accounts()
	if len(accounts) == 0 {
		return query.Rest, nil // the engine wakes no earlier
	}
	verdicts := map[*Account]Verdict{}
	for _, a := range accounts {
		used := a.Used(a.PIDs)
		if len(a.Units()) == 0 {
			continue
		}
		if failed := a.Read(); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		v := a.Judge.Check(now, used, a.Units())
		if restore && v.Again != nil || len(v.Over) > 0 {
			verdicts[a] = v
		}
	}
	if k.wait = k.Interval; now.Sub(k.changed) < freshTime {
		k.wait = freshInterval
	}
	k.wait = max(k.wait, k.Share*time.Since(now))
	for a, v := range verdicts {
		err = errors.Join(err, k.Obey(a, v))
		k.fresh()
	}
	return k.wait, err
}

// fresh shortens the interval for a while.
func (k *Keeper) fresh() {
	if k.ByFile {
		k.changed, k.wait = time.Now(), min(k.wait, freshInterval)
	}
}

// Load loads a program, with the sections that meter it.
func (k *Keeper) Load(
	p *bpf.Probe, f *target.File, sections []*bpf.Section,
) (_ engine.Program, err error) {
	if k.Meters(p) {
		if sections, err = k.Account(f).Sections(p, sections); err != nil {
			return nil, err
		}
	}
	return k.Kernel.Load(p, f, sections)
}

// PerFile implements engine.Kernel.
func (k *Keeper) PerFile(p *bpf.Probe) bool { return k.ByFile && k.Meters(p) }

// Shape is the probe's own if its events are counted.
func (k *Keeper) Shape(p *bpf.Probe, sections []*bpf.Section) (shape string, cookie uint64) {
	shape, cookie = k.Kernel.Shape(p, sections)
	if k.Meters(p) {
		shape = p.Key()
	}
	return shape, cookie
}

// Attach checks the budgets too: attaching to many probes takes long, and meanwhile the attached
// ones may exceed them.
func (k *Keeper) Attach(
	p engine.Program, f *target.File, sites []engine.Site, pid int,
	late func(engine.Links, error),
) (engine.Links, error) {
	// The next check reports what is wrong with the account of another file.
	if _, err := k.Check(false); err != nil && !k.ByFile {
		return nil, err
	}
	links, err := k.Kernel.Attach(p, f, sites, pid, late)
	if f.HasFunctions() {
		k.fresh()
	}
	return links, err
}
