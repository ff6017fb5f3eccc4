package functions

import (
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"
)

// key distinguishes the row from others.
func (r *Row) key() string { return strings.Join(append([]string{r.Of.name}, r.Row.Text...), "\x00") }

// Since returns the table of the calls that have returned since an earlier table of the same calls.
// The numbers of calls and returns without a counterpart are those of the whole run.
func (t *Table) Since(earlier *Table) *Table {
	before := map[string]*Row{}
	for _, r := range earlier.Rows {
		before[r.key()] = r
	}
	since := *t
	since.Rows = nil
	busy, all := map[*Function]bool{}, map[*Function]bool{}
	for _, r := range t.Rows {
		all[r.Of] = true
		if old := before[r.key()]; old != nil {
			r = r.since(old)
		}
		if r.Count > 0 {
			since.Rows, busy[r.Of] = append(since.Rows, r), true
		}
	}
	since.Idle += len(all) - len(busy)
	return &since
}

// since returns the calls of a row that are not in an earlier state of it.
func (r *Row) since(old *Row) *Row {
	of := &count.Row[*Function]{
		Of: r.Of, Text: r.Row.Text, JSON: r.Row.JSON, Value: r.Value, Detached: r.Detached,
		Count: r.Count - old.Count, Buckets: query.Tallies{},
	}
	for i, now := range r.Buckets {
		tally := *now
		if before := old.Buckets[i]; before != nil {
			tally.Count -= before.Count
			tally.Sum.Merge(query.Sum{Low: -before.Sum.Low, High: -before.Sum.High})
		}
		if tally.Count > 0 {
			*of.Buckets.Of(i) = tally
		}
	}
	row := newRow(of, r.Took.Of)
	row.Total, row.Own = max(r.Total-old.Total, 0), max(r.Own-old.Own, 0)
	return row
}
