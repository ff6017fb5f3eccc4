//go:build linux

package latency

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
)

// unpaired is what there is of a kind of operation without a counterpart.
type unpaired struct {
	starts, ends uint64 // starts that have not ended, and ends that have not started
	open         int
	unknown      int             // starts whose end may have been lost
	oldest       []openOperation // of those that are open, and then of those that may be, maxOpenShown at most
	columns      replay.Columns  // of oldest
}

// maxOpenShown is how many of the operations that are open are shown: those that have been open longest.
const maxOpenShown = 10

// openOperation is an operation that is open, as it is shown.
type openOperation struct {
	since     time.Duration // how long, or at most how long if its end may have been lost
	unknown   bool
	pid       int
	tid       int    // or 0 if it is unknown
	goroutine uint64 // or 0 if it is unknown
	key       replay.Value
	details   []replay.Value // by the names of columns
}

// unpaired reads what has no counterpart.
func (t *traced) unpaired() ([]unpaired, error) {
	all := make([]unpaired, len(t.latency.kinds.all))
	if t.operations.Plan == nil {
		return all, nil
	}
	t.full = 0
	for i := range all {
		totals, err := layout.ReadTotals(t.operations.Tables.Totals, uint32(i))
		if err != nil {
			return nil, err
		}
		// While they are counted, an end may be counted and its start not yet.
		all[i].starts, all[i].ends = totals.Starts-min(totals.Starts, totals.Pairs), totals.Ends
		t.full += totals.Full
	}
	open, err := t.operations.Open()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(open, func(a, b layout.Open) int { return cmp.Compare(a.Since, b.Since) })
	now := event.Now()
	for i := range open {
		o := &open[i]
		if o.Since == 0 || int(o.Kind) >= len(all) {
			continue
		}
		u := &all[o.Kind]
		if u.open++; len(u.oldest) < maxOpenShown {
			u.columns = t.columns(o.Kind)
			u.oldest = append(u.oldest, t.opened(o, now))
		}
	}
	return all, nil
}

// opened returns how an operation is shown.
func (t *traced) opened(o *layout.Open, now time.Duration) openOperation {
	plan := t.plans[o.Kind]
	s := openOperation{since: now - o.Since, pid: o.PID, tid: o.TID, key: replay.ValueIn(&plan.Key, o.Key), details: make([]replay.Value, len(plan.Open))}
	for i := range plan.Open {
		if o.Known(i) {
			s.details[i] = replay.ValueIn(&plan.Open[i], o.Value)
		}
	}
	return s
}

// columns returns what describes the open operations of a kind.
func (t *traced) columns(kind uint32) replay.Columns {
	plan := t.plans[kind]
	c := replay.Columns{Key: t.latency.pairs.key, By: plan.OpenBy}
	if c.Key == "arg0" {
		c.Key = t.run.Selector.Specs[0].First.ArgName(0)
	}
	for _, item := range plan.Open {
		c.Names = append(c.Names, item.Name)
	}
	return c
}
