//go:build linux

package latency

import (
	"cmp"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/internal/clock"
)

// unpaired describes the unpaired events of a kind of operation.
type unpaired struct {
	starts, ends uint64 // starts without an end, and ends without a start
	open         int
	unknown      int                 // starts whose end may have been lost
	oldest       []*replay.Operation // at most maxOpenShown: open operations, then operations that may be open
}

// maxOpenShown is the maximum number of open operations that are shown. The longest open are shown.
const maxOpenShown = 10

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
	processes := &replay.File{} // stands for all of them
	processes.Passed(cmp.Or(t.run.Ended, clock.Now()))
	for i := range open {
		o := &open[i]
		if o.Since == 0 || int(o.Kind) >= len(all) {
			continue
		}
		u := &all[o.Kind]
		if u.open++; len(u.oldest) < maxOpenShown {
			u.oldest = append(u.oldest, t.opened(o, processes))
		}
	}
	return all, nil
}

// opened converts an operation to the form of those whose events were read.
func (t *traced) opened(o *layout.Open, f *replay.File) *replay.Operation {
	plan := t.plans[o.Kind]
	s := &replay.Operation{
		File: f, Since: o.Since, PID: uint32(o.PID), TID: uint32(o.TID), Key: replay.ValueIn(&plan.Key, o.Key), Details: make([]replay.Value, len(plan.Open)),
		Columns: t.columns(plan),
	}
	for i := range plan.Open {
		if o.Known(i) {
			s.Details[i] = replay.ValueIn(&plan.Open[i], o.Value)
		}
	}
	return s
}

// columns returns the columns that describe the open operations of a plan.
func (t *traced) columns(plan *bpf.Latency) *replay.Columns {
	c := &replay.Columns{Key: t.latency.pairs.key, By: plan.OpenBy}
	if c.Key == "arg0" {
		c.Key = t.run.Selector.Specs[0].First.ArgName(0)
	}
	for _, item := range plan.Open {
		c.Names = append(c.Names, item.Name)
	}
	return c
}
