//go:build linux

package latency

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/internal/clock"
)

// unpaired describes the unpaired events of a kind of operation.
type unpaired struct {
	starts, ends uint64 // starts without an end, and ends without a start
	open         int
	unknown      int             // starts whose end may have been lost
	oldest       []openOperation // at most maxOpenShown: open operations, then operations that may be open
	columns      replay.Columns  // the columns of oldest
}

// maxOpenShown is the maximum number of open operations that are shown. The longest open are shown.
const maxOpenShown = 10

// openOperation is an open operation in the form in which it is shown.
type openOperation struct {
	since     time.Duration // how long it has been open, or the maximum if its end may have been lost
	unknown   bool
	pid       int
	tid       int    // 0 if unknown
	goroutine uint64 // 0 if unknown
	key       replay.Value
	details   []replay.Value // values in the order of the columns
}

// unpaired reads the unpaired events.
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
		// During the reading, an end may have been counted, but not its start.
		all[i].starts, all[i].ends = totals.Starts-min(totals.Starts, totals.Pairs), totals.Ends
		t.full += totals.Full
	}
	open, err := t.operations.Open()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(open, func(a, b layout.Open) int { return cmp.Compare(a.Since, b.Since) })
	now := t.run.Ended
	if now == 0 {
		now = clock.Now()
	}
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

// opened converts an operation to the form in which it is shown.
func (t *traced) opened(o *layout.Open, now time.Duration) openOperation {
	plan := t.plans[o.Kind]
	s := openOperation{since: max(now-o.Since, 0), pid: o.PID, tid: o.TID, key: replay.ValueIn(&plan.Key, o.Key), details: make([]replay.Value, len(plan.Open))}
	for i := range plan.Open {
		if o.Known(i) {
			s.details[i] = replay.ValueIn(&plan.Open[i], o.Value)
		}
	}
	return s
}

// columns returns the columns that describe the open operations of a kind.
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
