//go:build linux

package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
)

// maxOpen is how many open operations a snapshot has: those that have been open longest.
const maxOpen = 1000

// snapshot is what there is to see at a time. It is not changed once it is made.
type snapshot struct {
	at     time.Time
	window time.Duration // what rates and quantiles are of
	lines  []line
	open   []opened
	names  []string // of --by
	// These are numbers of operations: those that are open, those of rows for which there was no room, and those
	// whose start found no room, and ends of those that began before. lost are events.
	allOpen              int
	others, full, before uint64
	lost                 uint64
	// unknown is the number of operations whose end may have been lost. If the source does not tell them, they are among those that are open.
	unknown int
	told    bool
}

// line is a row of a snapshot.
type line struct {
	name         string
	by           []replay.Shown // in the order of --by
	count        uint64         // of all
	rate, errors float64        // per second
	open         int
	longest      time.Duration
	p50, p99     float64 // or 0 if nothing has ended
	histogram    *render.Histogram
}

// opened is an operation that is open.
type opened struct {
	name      string
	since     time.Duration // how long, or at most how long if its end may have been lost
	unknown   bool
	pid, tid  uint32
	goroutine uint64
	key       replay.Shown
	by        []replay.Shown // in the order of --by
	args      []replay.Shown
}

// snapshot returns what there is to see.
func (t *table) snapshot(at time.Time, now time.Duration) *snapshot {
	s := &snapshot{at: at, window: t.window(now), names: t.operations.By, others: t.others, full: t.operations.Full, before: t.operations.Ends()}
	s.take(t)
	seconds := max(s.window.Seconds(), 1e-9)
	for _, r := range t.rows {
		sum, h := r.recent()
		l := line{
			name: r.kind.Name, by: t.named(r.kind, r.values), count: r.count, open: r.open, longest: r.oldest, histogram: h,
			rate: float64(sum.count) / seconds, errors: float64(sum.errors) / seconds,
		}
		if sum.count > 0 {
			l.p50, l.p99 = h.Quantile(0.5), h.Quantile(0.99)
		}
		s.lines = append(s.lines, l)
	}
	return s
}

// take takes the operations that are open, and counts them in the rows.
func (s *snapshot) take(t *table) {
	for _, r := range t.rows {
		r.open, r.oldest = 0, 0
	}
	var all []*replay.Operation
	kinds := map[*replay.Operation]*replay.Kind{}
	for _, kind := range t.operations.Kinds() {
		kind.Pairs.Open(func(o *replay.Operation) {
			all = append(all, o)
			kinds[o] = kind
			if !o.IsOpen() {
				s.unknown++
				return
			}
			s.allOpen++
			values := make([]replay.Value, len(kind.Columns))
			for i, at := range kind.Columns {
				if at >= 0 && at < len(o.Details) {
					values[i] = o.Details[at]
				}
			}
			if r := t.row(kind, values); r != nil {
				r.open++
				r.oldest = max(r.oldest, o.For())
			}
		})
	}
	replay.SortOpen(all)
	for _, o := range all[:min(len(all), maxOpen)] {
		s.open = append(s.open, t.opened(kinds[o], o))
	}
}

// opened returns how an operation is shown.
func (t *table) opened(kind *replay.Kind, o *replay.Operation) opened {
	shownAs := opened{
		name: kind.Name, since: o.For(), unknown: !o.IsOpen(), pid: o.PID, tid: o.TID, goroutine: o.Goroutine,
		key: replay.Show(o.Columns.Key, &o.Key), by: make([]replay.Shown, len(t.operations.By)),
	}
	for i, name := range t.operations.By {
		shownAs.by[i] = replay.Shown{Name: name, Text: "-"}
	}
	for i := range o.Details {
		v := replay.Show(o.Columns.Names[i], &o.Details[i])
		if at := slices.Index(kind.Columns, i); at >= 0 {
			shownAs.by[kind.By[at]] = v
			continue
		}
		shownAs.args = append(shownAs.args, v)
	}
	return shownAs
}

// named returns the values of a row in the order of --by. Those that the kind does not have are unknown.
func (t *table) named(kind *replay.Kind, values []replay.Value) []replay.Shown {
	all := make([]replay.Shown, len(t.operations.By))
	for i, name := range t.operations.By {
		all[i] = replay.Shown{Name: name, Text: "-"}
	}
	for i, at := range kind.By {
		all[at] = replay.Show(t.operations.By[at], &values[i])
	}
	return all
}

// arguments are what is known of an open operation, for people.
func (o *opened) arguments() string {
	known := slices.DeleteFunc(slices.Clone(o.by), func(v replay.Shown) bool { return v.JSON == nil })
	return replay.Join(append(known, o.args...))
}

// thread is the goroutine if it is known, or else the thread.
func (o *opened) thread() uint64 {
	if o.goroutine != 0 {
		return o.goroutine
	}
	return uint64(o.tid)
}

// title is the operation with its values of --by.
func (l *line) title() string { return strings.TrimSpace(l.name + " " + replay.Join(l.by)) }

// of reports whether an open operation belongs to the row.
func (l *line) of(o *opened) bool {
	return o.name == l.name && slices.EqualFunc(l.by, o.by, func(a, b replay.Shown) bool { return a.Text == b.Text })
}

// sorted returns the rows in an order, the first the largest, and those in which a text occurs.
func (s *snapshot) sorted(by *column, filter string) []line {
	rows := slices.Clone(s.lines)
	rows = slices.DeleteFunc(rows, func(l line) bool { return !strings.Contains(l.title(), filter) })
	slices.SortFunc(rows, func(a, b line) int {
		byNumber := 0
		if by.number != nil {
			byNumber = -cmp.Compare(by.number(&a), by.number(&b))
		}
		return cmp.Or(byNumber, -cmp.Compare(a.count, b.count), cmp.Compare(a.title(), b.title()))
	})
	return rows
}

// filtered returns the open operations in which a text occurs.
func (s *snapshot) filtered(filter string) []opened {
	return slices.DeleteFunc(slices.Clone(s.open), func(o opened) bool {
		return !strings.Contains(o.name+" "+o.arguments(), filter)
	})
}
