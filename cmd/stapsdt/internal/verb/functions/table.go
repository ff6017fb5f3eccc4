package functions

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"
)

// Table holds the calls that have returned, by function and by the values of --by.
type Table struct {
	Rows []*Row
	By   []string // the expressions of --by
	// Idle counts the functions that have no calls. Running are those of which calls, but no
	// returns, were seen. Unseen counts those whose returns cannot be seen.
	Idle            int
	Running, Unseen []string
	// Uncounted counts functions that the budget has detached before any of their calls returned.
	Uncounted int
	// Calls counts the calls without a return, and Returns the returns without a call.
	Calls, Returns uint64
	// Where means that a condition selects calls.
	Where bool
	// AtMost is the reason that the times without other functions are upper bounds, or "".
	AtMost string

	detached int // number of functions
}

// Row holds the calls of a function with the same values of --by.
type Row struct {
	*count.Row[*Function]
	Took *render.Histogram
	// Total is the time of the calls, without recursive ones inside them, and Own the time of the
	// calls without the selected functions inside them.
	Total, Own time.Duration
}

// add adds the totals of a function, which may have rows, or be detached.
func (t *Table) add(f *Function, totals query.Totals, hasRows, detached bool) {
	if !f.fit[0] || !f.fit[1] {
		if f.fit[0] {
			t.Unseen = append(t.Unseen, f.name)
		}
		return
	}
	open := totals.Starts - min(totals.Starts, totals.Pairs) // a return may be counted meanwhile
	t.Calls, t.Returns = t.Calls+open, t.Returns+totals.Ends
	if detached {
		t.detached++
	}
	switch {
	case hasRows:
	case detached:
		t.Uncounted++
	case open > 0:
		t.Running = append(t.Running, f.name)
	default:
		t.Idle++
	}
}

// newRow returns a row. buckets divide its times.
func newRow(r *count.Row[*Function], buckets query.Buckets) *Row {
	return &Row{
		r, r.Histogram(buckets), time.Duration(r.Whole), time.Duration(r.Own),
	}
}

// number returns the number of the row in a column.
func (r *Row) number(column string) float64 {
	switch column {
	case "own":
		return float64(r.Own)
	case "count":
		return float64(r.Count)
	case "p50":
		return r.Took.Quantile(0.5)
	case "p99":
		return r.Took.Quantile(0.99)
	case "max":
		return r.Took.Quantile(1)
	}
	return float64(r.Total)
}

// sorted returns the rows sorted by a column, the largest number first.
func (t *Table) sorted(column string) []*Row {
	numbers := map[*Row]float64{}
	for _, r := range t.Rows {
		numbers[r] = r.number(column)
	}
	return slices.SortedFunc(slices.Values(t.Rows), func(a, b *Row) int {
		return cmp.Or(
			cmp.Compare(numbers[b], numbers[a]), cmp.Compare(b.Total, a.Total),
			cmp.Compare(a.Of.name, b.Of.name), slices.Compare(a.Row.Text, b.Row.Text),
		)
	})
}

// OwnText formats a time without other functions for people, which may be an upper bound.
func (t *Table) OwnText(own float64) string {
	return render.OpenFor(time.Duration(own), t.AtMost != "")
}

// Text formats the table for people: at most limit rows unless it is 0, sorted by a column.
func (t *Table) Text(column string, limit, width int) []byte {
	var b bytes.Buffer
	rows := t.sorted(column)
	shown := rows
	if limit > 0 {
		shown = rows[:min(limit, len(rows))]
	}
	if len(shown) > 0 {
		b.Write(t.rows(shown, width))
	}
	if rest := rows[len(shown):]; len(rest) > 0 {
		var calls uint64
		for _, r := range rest {
			calls += r.Count
		}
		b.WriteString(count.Others(calls, "call", len(rest)))
	}
	for _, note := range t.Notes() {
		fmt.Fprintln(&b, note)
	}
	if b.Len() == 0 {
		return []byte("no events\n")
	}
	return b.Bytes()
}

// rows formats rows, beginning with the heading.
func (t *Table) rows(rows []*Row, width int) []byte {
	table := render.Table{Width: width}
	header := []string{"COUNT", "P50", "P99", "MAX", "TOTAL", "OWN"}
	detached := slices.ContainsFunc(rows, func(r *Row) bool { return r.Detached != nil })
	if detached {
		header = append(header, "DETACHED")
	}
	table.Right = len(header)
	table.Add(append(append(header, "FUNCTION"), t.By...)...)
	for _, r := range rows {
		cells := []string{
			fmt.Sprint(r.Count),
			r.Took.Format(r.Took.Quantile(0.5)),
			r.Took.Format(r.Took.Quantile(0.99)),
			r.Took.Format(r.Took.Quantile(1)),
			render.Duration(float64(r.Total)),
			t.OwnText(float64(r.Own)),
		}
		if detached {
			cells = append(cells, r.Detached.String())
		}
		table.Add(append(append(cells, r.Of.name), r.Row.Text...)...)
	}
	return table.Text()
}

// maxNamed is the maximum number of functions that a note names.
const maxNamed = 5

// Notes returns lines about functions and calls that have no row.
func (t *Table) Notes() (all []string) {
	note := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if t.Idle > 0 {
		calls := "no calls"
		if t.Where {
			calls = "no such calls"
		}
		note("%s had %s", render.Number(t.Idle, "function"), calls)
	}
	if t.Uncounted > 0 {
		note("%s detached before a call returned", render.Number(t.Uncounted, "function"))
	}
	if len(t.Running) > 0 {
		note("called, but not returned: %s", some(t.Running))
	}
	if len(t.Unseen) > 0 {
		note("not measured, because their returns cannot be seen: %s", some(t.Unseen))
	}
	if t.Calls > 0 {
		note("%s without a return: running, or ended by a panic", render.Number(t.Calls, "call"))
	}
	if t.Returns > 0 {
		note("%s of calls that began earlier", render.Number(t.Returns, "return"))
	}
	if t.AtMost != "" && len(t.Rows) > 0 {
		note("OWN is an upper bound, because %s", t.AtMost)
	}
	return all
}

// some names some functions.
func some(names []string) string { return render.Printable(text.Some(names, maxNamed)) }
