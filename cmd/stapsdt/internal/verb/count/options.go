package count

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
)

// Probe is the subject of the counts of a probe.
type Probe struct{ Provider, Name string }

func (p Probe) String() string { return p.Provider + ":" + p.Name }

// Expressions are evaluated at each event.
type Expressions struct {
	// By lists expressions. Events are counted separately for each combination of their
	// values.
	By []string
	// Value is the expression whose values are summed, or "". Buckets divides the values of a
	// histogram, and is nil otherwise.
	Value   string
	Buckets query.Buckets
}

// sums reports whether values are only summed.
func (e *Expressions) sums() bool { return e.Value != "" && e.Buckets == nil }

// counting returns the part of a program that the expressions define.
func (e *Expressions) counting() query.Counting {
	c := query.Counting{By: e.By, Value: e.Value, For: "a histogram", Buckets: e.Buckets}
	if e.sums() {
		c.For = "a sum"
	}
	return c
}

// Options define what is counted, and how it is shown.
type Options struct {
	Expressions
	// Limit is the maximum number of rows of the output for people, or 0 for all.
	Limit int
	// Table selects a table in place of histograms, however few rows there are.
	Table bool
	// Histograms selects histograms in place of the table of functions.
	Histograms bool
	// Interval is the time between two reports, or 0 for only one at the end.
	Interval time.Duration
	// Sort is the column by which rows are sorted, the largest first, or "" for the number of
	// events.
	Sort string
	// From names the recordings to read instead of processes.
	From replay.From
}

// Columns by which rows can be sorted, apart from count.
var (
	sumColumns       = []string{"sum"}
	histogramColumns = []string{"average", "p50", "p99", "max"}
)

// Check returns an error if an option is not valid.
func (o *Options) Check() error {
	var columns []string
	switch {
	case o.sums():
		columns = sumColumns
	case o.Buckets != nil:
		columns = histogramColumns
	}
	if columns = append([]string{"count"}, columns...); o.Sort != "" &&
		!slices.Contains(columns, o.Sort) {
		return query.Usagef("--sort takes %s here, not %q", strings.Join(columns, " or "), o.Sort)
	}
	return CheckLimit(o.Limit)
}

// NewInterval returns the interval of the reports. It returns an error if the events are of the
// past.
func (o *Options) NewInterval() (*query.Interval, error) {
	if o.Interval > 0 && len(o.From.Paths) > 0 && !o.From.Follow {
		return nil, query.Usagef("-i cannot be used with --from: add --follow")
	}
	return query.NewInterval(o.Interval)
}

// Sorted sorts rows, which must be in the order of their counts.
func Sorted[S Subject](rows []*Row[S], o *Options) []*Row[S] {
	if o.Sort == "" || o.Sort == "count" {
		return rows
	}
	numbers := map[*Row[S]]float64{}
	for _, r := range rows {
		numbers[r] = r.number(o)
	}
	slices.SortStableFunc(
		rows, func(a, b *Row[S]) int { return -cmp.Compare(numbers[a], numbers[b]) },
	)
	return rows
}

// number returns the value of the row by which rows are sorted.
func (r *Row[S]) number(o *Options) float64 {
	if o.Sort == "sum" {
		return r.sum().Float()
	}
	h := r.Histogram(o.Buckets)
	switch o.Sort {
	case "average":
		return h.Average()
	case "p50":
		return h.Quantile(0.5)
	case "p99":
		return h.Quantile(0.99)
	}
	return h.Quantile(1)
}

// sum returns the sum of the values of a row.
func (r *Row[S]) sum() (s query.Sum) {
	for _, b := range r.Buckets {
		s.Merge(b.Sum)
	}
	return s
}

// CheckLimit returns an error if a limit of rows is not valid.
func CheckLimit(limit int) error {
	if limit < 0 {
		return query.Usagef("-n %d is negative", limit)
	}
	return nil
}

// most returns the rows that are shown, and a line about the remaining rows.
func most[S Subject](rows []*Row[S], limit int) (shown []*Row[S], others string) {
	if limit == 0 || len(rows) <= limit {
		return rows, ""
	}
	return rows[:limit], Others(total(rows[limit:]), "event", len(rows)-limit)
}

// Others returns a line about rows that are not shown, with the number of their events, which what
// names.
func Others(events uint64, what string, rows int) string {
	return fmt.Sprintf("and %s in %s (--number 0 shows all)\n", render.Number(events, what), render.Number(rows, "other row"))
}

// total returns the number of events of some rows.
func total[S Subject](rows []*Row[S]) (n uint64) {
	for _, r := range rows {
		n += r.Count
	}
	return n
}
