package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/functions"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/tree"
)

// maxOpen is the maximum number of open operations in a snapshot. It keeps the longest open.
const maxOpen = 1000

// snapshot is the content of a screen at a time. It is immutable.
type snapshot struct {
	at     time.Time
	window time.Duration // the time that rates and quantiles cover
	past   *events.Past  // of the stream, or nil if it is not live
	lines  []line
	open   []opened
	names  []string // names of the values of --by
	// allOpen counts the open operations, others the operations of rows for which there was no
	// room, full the operations whose start found no room, and before the operations that began
	// before the run. lost counts events.
	allOpen              int
	others, full, before uint64
	lost                 uint64
	// unknown counts operations whose end may have been lost.
	unknown int
	parts   *tree.Parts // of the open operations, or nil
	nested  bool        // open operations follow the operations that they are parts of
	// functions is the table of the functions that the lines show, or nil if they show operations.
	functions *functions.Table
	last      bool // whether it is the last one of a run
}

// line is a row of a snapshot.
type line struct {
	jsonLine
	by        []evaluate.Shown // values in the order of --by
	histogram *render.Histogram
	row       *functions.Row // of a function, or nil
	own       string         // its own time
}

// opened is an operation that is open.
type opened struct {
	jsonOpen
	operation *pairing.Operation
	depth     int // nesting depth, if operations are nested
	key       evaluate.Shown
	parts     []evaluate.Shown // of the key, if it is not an ID and the operations are not nested
	by        []evaluate.Shown // values in the order of --by
	args      []evaluate.Shown
}

// snapshot returns a snapshot of the table. The snapshot of a recording nests the open operations.
func (t *table) snapshot(at time.Time, now time.Duration, recorded bool) *snapshot {
	s := &snapshot{
		at: at, lines: []line{}, parts: t.parts, nested: recorded,
		window: t.window(now), names: t.operations.By,
		others: t.others, full: t.operations.Open.Full, before: t.operations.Ends(),
	}
	if t.parts != nil {
		t.parts.Look()
	}
	s.take(t)
	seconds := max(s.window.Seconds(), 1e-9)
	for key, r := range t.rows {
		if r.open == 0 && r.count == 0 {
			// It was open, and is counted in the row of the values that only its end has.
			delete(t.rows, key)
			continue
		}
		sum, h := r.recent()
		by := t.named(r.kind, r.values)
		l := line{jsonLine: jsonLine{
			Operation: r.kind.Name, By: evaluate.Object(by), Count: r.count,
			Open: r.open, Longest: r.oldest,
			Rate: float64(sum.count) / seconds, Errors: float64(sum.errors) / seconds,
		}, by: by, histogram: h}
		if sum.count > 0 {
			p50, p99 := render.JSONFloat(h.Quantile(0.5)), render.JSONFloat(h.Quantile(0.99))
			l.P50, l.P99 = &p50, &p99
		}
		s.lines = append(s.lines, l)
	}
	return s
}

// take adds the open operations, and counts them in the rows.
func (s *snapshot) take(t *table) {
	for _, r := range t.rows {
		r.open, r.oldest = 0, 0
	}
	var all []*pairing.Operation
	for o := range t.operations.Selected() {
		all = append(all, o)
		if !o.IsOpen() {
			s.unknown++
			continue
		}
		s.allOpen++
		values := make([]evaluate.Value, len(o.Kind.Columns))
		for i, at := range o.Kind.Columns {
			if at >= 0 && at < len(o.Details) {
				values[i] = o.Details[at]
			}
		}
		if r := t.row(o.Kind, values); r != nil {
			r.open++
			r.oldest = max(r.oldest, o.For())
		}
	}
	pairing.SortOpen(all)
	depths := make([]int, len(all))
	if s.nested {
		all, depths = pairing.Nest(all)
	}
	for i, o := range all[:min(len(all), maxOpen)] {
		s.open = append(s.open, t.opened(o))
		s.open[i].depth = depths[i]
		for j, part := range t.operations.Key {
			if !s.nested {
				s.open[i].parts = append(s.open[i].parts, evaluate.Show(part, &o.Key[j]))
			}
		}
	}
}

// opened returns the row of an open operation.
func (t *table) opened(o *pairing.Operation) opened {
	kind := o.Kind
	shownAs := opened{
		jsonOpen:  jsonOpen{kind.Name, o.JSON(), o.Parent},
		operation: o, by: t.unknown(), key: o.Key.Show(o.Columns.Key),
	}
	for i := range o.Details {
		v := evaluate.Show(o.Columns.Names[i], &o.Details[i])
		if at := slices.Index(kind.Columns, i); at >= 0 {
			shownAs.by[kind.By[at]] = v
			continue
		}
		shownAs.args = append(shownAs.args, v)
	}
	return shownAs
}

// named returns the values of a row in the order of --by. Values that the kind does not have are
// unknown.
func (t *table) named(kind *pairing.Kind, values []evaluate.Value) []evaluate.Shown {
	all := t.unknown()
	for i, at := range kind.By {
		all[at] = evaluate.Show(t.operations.By[at], &values[i])
	}
	return all
}

// unknown returns unknown values in the order of --by.
func (t *table) unknown() (all []evaluate.Shown) {
	for _, name := range t.operations.By {
		all = append(all, evaluate.Shown{Name: name, Text: "-"})
	}
	return all
}

// arguments formats the known values of an open operation for people.
func (o *opened) arguments() string {
	isUnknown := func(v evaluate.Shown) bool { return v.JSON == nil }
	known := slices.DeleteFunc(slices.Clone(o.by), isUnknown)
	return evaluate.Join(slices.Concat(o.parts, known, o.args))
}

// thread returns the goroutine ID if it is known, or else the thread ID.
func (o *opened) thread() uint64 {
	return cmp.Or(o.Goroutine, uint64(o.TID))
}

// title returns the name of the operation with its values of --by.
func (l *line) title() string { return strings.TrimSpace(l.Operation + " " + evaluate.Join(l.by)) }

// of reports whether an open operation belongs to the row.
func (l *line) of(o *opened) bool {
	same := func(a, b evaluate.Shown) bool { return a.Text == b.Text }
	return o.Operation == l.Operation && slices.EqualFunc(l.by, o.by, same)
}

// sorted returns the rows that contain the filter, sorted by a column, the largest first.
func (s *snapshot) sorted(by *column, filter string) []line {
	rows := slices.Clone(s.lines)
	rows = slices.DeleteFunc(
		rows, func(l line) bool { return !strings.Contains(l.title(), filter) },
	)
	slices.SortFunc(rows, func(a, b line) int {
		byNumber := 0
		if by.number != nil {
			byNumber = -cmp.Compare(by.number(&a), by.number(&b))
		}
		return cmp.Or(byNumber, -cmp.Compare(a.Count, b.Count), cmp.Compare(a.title(), b.title()))
	})
	return rows
}

// filtered returns the open operations that contain the filter.
func (s *snapshot) filtered(filter string) []opened {
	return slices.DeleteFunc(slices.Clone(s.open), func(o opened) bool {
		return !strings.Contains(o.Operation+" "+o.arguments(), filter)
	})
}
