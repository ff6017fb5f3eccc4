//go:build linux

package meter

import (
	"runtime"
	"slices"
	"time"
)

const (
	// firstRest is the time for which a unit rests after it was too expensive. It doubles each
	// time, up to lastRest. A unit that was attached for lastRest begins with firstRest again.
	firstRest = 5 * time.Second
	lastRest  = 10 * time.Minute
	// negligible is the part of a processor that is below every budget: otherwise a process that
	// does almost nothing would allow no event at all.
	negligible = 0.001
)

// Guard keeps the cost of units within a share of the processor time of processes forever. A
// unit that is too expensive rests, and is tried again when its cost is paid: when the processes
// have used so much processor time that the share of it is no less than everything that the units
// have cost. The zero value is not usable.
type Guard struct {
	share  float64
	budget *Budget
	rests  map[*Unit]*rest
	debt   time.Duration // the part of the cost that is not paid
	at     time.Time     // of the last check
	cost   time.Duration // of all units
	used   time.Duration // processor time of the processes, with plausible steps
	seen   time.Duration // the same without the limits
	tried  time.Time     // when a unit was last tried again
}

// rest is the state of a unit that was too expensive.
type rest struct {
	resting bool
	length  time.Duration
	until   time.Time // the end of the rest
	since   time.Time // when the unit was tried again
}

// NewGuard returns a guard for a share of the processor time.
func NewGuard(share float64) *Guard {
	return &Guard{share: share, budget: newGuardBudget(share), rests: map[*Unit]*rest{}}
}

func newGuardBudget(share float64) *Budget {
	return NewBudget(share, time.Duration(negligible*float64(window)))
}

// Set changes the share.
func (g *Guard) Set(share float64) {
	if share != g.share {
		g.share, g.budget = share, newGuardBudget(share)
	}
}

// Check judges the units by their cost and by the processor time of the processes until now. The
// units that are over rest from now on.
func (g *Guard) Check(now time.Time, used time.Duration, units []*Unit) (v Verdict) {
	g.pay(now, used, units)
	v = g.budget.Check(now, g.used, units)
	v.Over = slices.DeleteFunc(v.Over, g.Rests) // it had events until it was detached
	for _, u := range v.Over {
		g.rest(u, now)
	}
	if len(v.Over) > 0 || g.debt > 0 || now.Sub(g.tried) < window {
		return v
	}
	for _, u := range units {
		r := g.rests[u]
		due := r != nil && r.resting && !now.Before(r.until)
		if due && (v.Again == nil || r.until.Before(g.rests[v.Again].until)) {
			v.Again = u
		}
	}
	return v
}

// Try ends the rest of a unit, which is attached again.
func (g *Guard) Try(u *Unit, now time.Time) {
	r := g.rests[u]
	r.resting, r.since, g.tried = false, now, now
}

// pay adds the cost since the last check to the debt, and subtracts the share of the processor time
// since then. What was not spent is not saved.
func (g *Guard) pay(now time.Time, used time.Duration, units []*Unit) {
	var cost time.Duration
	for _, u := range units {
		cost += u.Cost
	}
	if !g.at.IsZero() {
		elapsed := now.Sub(g.at)
		step := min(max(used-g.seen, 0), elapsed*time.Duration(runtime.NumCPU()))
		g.used += step
		share := max(g.share*float64(step), negligible*float64(elapsed))
		g.debt = max(g.debt+cost-g.cost-time.Duration(share), 0)
	}
	g.at, g.cost, g.seen = now, cost, used
}

// rest begins the rest of a unit.
func (g *Guard) rest(u *Unit, now time.Time) {
	r := g.rests[u]
	if r == nil || now.Sub(r.since) >= lastRest {
		r = &rest{length: firstRest / 2}
		g.rests[u] = r
	}
	r.resting, r.length = true, min(2*r.length, lastRest)
	r.until = now.Add(r.length)
}

// Rests reports whether a unit is detached.
func (g *Guard) Rests(u *Unit) bool { return g.rests[u] != nil && g.rests[u].resting }

// IsFirst reports whether the rest of a unit is its first, or the first after a long time.
func (g *Guard) IsFirst(u *Unit) bool { return g.Rests(u) && g.rests[u].length == firstRest }

// Spent returns the cost of all units, and the processor time of the processes, until the last
// check.
func (g *Guard) Spent() (cost, used time.Duration) { return g.cost, g.used }
