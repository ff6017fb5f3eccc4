//go:build linux

package latency

import (
	"cmp"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/record"
)

// unpaired is what there is of a kind of operation without a counterpart.
type unpaired struct {
	starts, ends uint64 // starts that have not ended, and ends that have not started
	open         []record.Open
}

// longest is how many of the operations that are open are shown.
const longest = 10

// oldest returns those that are shown: which have been open longest.
func (u *unpaired) oldest() []record.Open { return u.open[:min(len(u.open), longest)] }

// unpaired reads what has no counterpart. What is open comes in the order of its start.
func (l *latency) unpaired() ([]unpaired, error) {
	all := make([]unpaired, len(l.kinds.all))
	if l.operations.Plan == nil {
		return all, nil
	}
	l.full = 0
	for i := range all {
		t, err := record.ReadTotals(l.operations.Tables.Totals, uint32(i))
		if err != nil {
			return nil, err
		}
		// While they are counted, an end may be counted and its start not yet.
		all[i].starts, all[i].ends = t.Starts-min(t.Starts, t.Pairs), t.Ends
		l.full += t.Full
	}
	open, err := l.operations.Open()
	if err != nil {
		return nil, err
	}
	for _, o := range open {
		if o.Since != 0 && int(o.Kind) < len(all) {
			all[o.Kind].open = append(all[o.Kind].open, o)
		}
	}
	for _, u := range all {
		slices.SortFunc(u.open, func(a, b record.Open) int { return cmp.Compare(a.Since, b.Since) })
	}
	return all, nil
}
