//go:build linux

package meter

import (
	"cmp"
	"slices"
	"time"
)

// window is the time for which a cost is compared with the processor time.
const window = time.Second

// Budget is the share of the programs' processor time that their probes may take.
type Budget struct {
	share   float64
	least   time.Duration // the cost in a window that never exceeds the budget
	history []sample      // the samples of the last window, the oldest first
}

// sample is a measurement at a time.
type sample struct {
	at    time.Time
	used  time.Duration // processor time of the programs
	costs map[*Unit]time.Duration
}

// NewBudget returns a budget of a share of the processor time, or of least in each second if that
// is more. The whole processor time is no limit.
func NewBudget(share float64, least time.Duration) *Budget {
	return &Budget{share: share, least: least}
}

// Check compares the cost of units with the processor time that the programs, including their
// probes, have used until now. If the cost exceeds the budget, the most expensive units are over,
// without which it would not.
//
// In its first second, a run may spend the allowance of the whole second, so that one expensive
// event at the beginning need not exceed the budget, but a storm of events does at once.
func (b *Budget) Check(now time.Time, used time.Duration, units []*Unit) (v Verdict) {
	s := sample{now, used, map[*Unit]time.Duration{}}
	for _, u := range units {
		s.costs[u] = u.Cost
	}
	b.history = append(b.history, s)
	for len(b.history) > 2 && now.Sub(b.history[1].at) >= window {
		b.history = b.history[1:]
	}
	first := b.history[0]
	elapsed := now.Sub(first.at)
	if elapsed <= 0 || b.share >= 1 {
		return v
	}
	cost := func(u *Unit) time.Duration { return u.Cost - first.costs[u] }
	var total time.Duration
	for _, u := range units {
		total += cost(u)
	}
	used -= first.used
	allowed := time.Duration(b.share * float64(used) * max(1, window.Seconds()/elapsed.Seconds()))
	if total <= max(allowed, b.least) {
		return v
	}
	v.Taken = min(1, float64(total)/float64(max(used, 1)))
	allowed = time.Duration(b.share * float64(used)) // the limit for the other units
	expensive := func(a, b *Unit) int { return cmp.Compare(cost(b), cost(a)) }
	for _, u := range slices.SortedStableFunc(slices.Values(units), expensive) {
		if total <= allowed {
			break
		}
		v.Over = append(v.Over, u)
		total -= cost(u)
	}
	// the next call begins a new history: these units still have events until they are detached
	b.history = nil
	return v
}
