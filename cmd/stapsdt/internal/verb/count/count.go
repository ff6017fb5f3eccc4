// Package count counts the events of probes in the kernel: by the values of expressions, by the
// buckets of a value, and by the stacks from which they come.
package count

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/source"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/internal/kind"
)

// results are the counts so far.
type results interface {
	// Rows returns the counts. The most frequent rows come first.
	Rows() ([]*Row[Probe], error)
	// Report warns of events that are not included. what names the keys if there were too many
	// different ones.
	Report(what string) error
}

// reporter runs the commands count and hist. It is an engine.Ticker.
type reporter struct {
	results
	*console.Console
	options  Options
	format   query.Format
	interval *query.Interval
	screen   console.Screen
	until    func() time.Time // the time until which the events are counted
	shown    [2]shown         // the last two screens, or the beginning of the run
}

// shown holds the counts of a screen.
type shown struct {
	at     time.Time
	counts map[string]uint64 // by Row.key
}

// Run counts events until the run ends. It shows their counts, or histograms if the options have
// buckets.
func Run(ctx context.Context, to *console.Console, config query.Config, o Options) (err error) {
	if err := o.Check(); err != nil {
		return err
	}
	if o.By, err = query.SplitExprs(o.By); err != nil {
		return err
	}
	c := newReporter(to, o, config.Format)
	if c.interval, err = o.NewInterval(); err != nil {
		return err
	}
	route, err := source.Choose(to, &config, events.Options{From: o.From, Needs: o.needs()})
	if err != nil {
		return err
	}
	if route.Stream == nil {
		return c.runTraced(ctx, config, route)
	}
	defer route.Stream.Close()
	return newStreamCounter(&o).run(ctx, route.Stream, c)
}

// finish shows the final counts.
func (c *reporter) finish() error {
	if err := c.show(true); err != nil {
		return err
	}
	return c.Report("values of --by")
}

func newReporter(to *console.Console, o Options, f query.Format) *reporter {
	begin := shown{at: time.Now()}
	return &reporter{
		Console: to, options: o, format: f, screen: console.Screen{Console: to}, until: time.Now,
		shown: [2]shown{begin, begin},
	}
}

func (c *reporter) FDs() []int { return nil }

func (c *reporter) Tick() (next time.Duration, more bool, err error) {
	due, next := c.interval.Due()
	if due {
		err = c.show(false)
	}
	return next, true, err
}

// show shows the counts. last means that they are final, and are shown completely.
func (c *reporter) show(last bool) error {
	rows, err := c.Rows()
	if err != nil {
		return err
	}
	rows = Sorted(rows, &c.options)
	if c.format.IsJSON() {
		return c.encode(rows)
	}
	if len(rows) == 0 {
		return c.screen.Show([]byte("no events\n"), last)
	}
	if c.options.Buckets != nil {
		return c.screen.Show(c.histograms(rows), last)
	}
	return c.screen.Show(c.table(rows, last), last)
}

// table returns the counts as a table.
func (c *reporter) table(rows []*Row[Probe], last bool) []byte {
	rates := c.rates(rows, last)
	rows, others := most(rows, c.options.Limit)
	table := render.Table{Width: console.Columns(c.Out)}
	header := []string{"COUNT"}
	if c.options.Interval > 0 {
		header = append(header, "PER SECOND")
	}
	if c.options.sums() {
		header = append(header, "SUM OF "+c.options.Value)
	}
	detached := slices.ContainsFunc(rows, func(r *Row[Probe]) bool { return r.Detached != nil })
	if detached {
		header = append(header, "DETACHED")
	}
	table.Right = len(header)
	table.Add(append(append(header, "PROBE"), c.options.By...)...)
	for _, r := range rows {
		cells := []string{fmt.Sprint(r.Count)}
		if c.options.Interval > 0 {
			cells = append(cells, fmt.Sprintf("%.0f", rates[r]))
		}
		if c.options.sums() {
			cells = append(cells, r.sumText())
		}
		if detached {
			cells = append(cells, r.Detached.String())
		}
		table.Add(append(append(cells, r.Of.String()), r.Text...)...)
	}
	return append(table.Text(), others...)
}

// sumText formats the sum of a row for people.
func (r *Row[S]) sumText() string {
	sum := r.sum()
	n := sum.Int()
	switch {
	case r.Value.Unit != kind.Nanoseconds:
		return n.String()
	case !n.IsInt64():
		return render.Duration(sum.Float())
	}
	return time.Duration(n.Int64()).String()
}

// rates returns the events per second of each row since the last screen. The final screen can
// follow too soon for that: it has the rates since the screen before.
func (c *reporter) rates(rows []*Row[Probe], last bool) map[*Row[Probe]]float64 {
	now, since := shown{c.until(), map[string]uint64{}}, c.shown[1]
	if last && now.at.Sub(since.at) < c.options.Interval/2 {
		since = c.shown[0]
	}
	rates := map[*Row[Probe]]float64{}
	for _, r := range rows {
		now.counts[r.key] = r.Count
		if seconds := now.at.Sub(since.at).Seconds(); seconds > 0 {
			rates[r] = float64(r.Count-since.counts[r.key]) / seconds
		}
	}
	c.shown = [2]shown{c.shown[1], now}
	return rates
}

// histograms formats the histograms of all rows for people, grouped by probe.
func (c *reporter) histograms(rows []*Row[Probe]) []byte {
	var b bytes.Buffer
	h := Histograms{Options: &c.options, Columns: console.Columns(c.Out)}
	for len(rows) > 0 {
		var own, others []*Row[Probe]
		for _, r := range rows {
			if r.Of == rows[0].Of {
				own = append(own, r)
			} else {
				others = append(others, r)
			}
		}
		WriteHistograms(&b, h, own, " "+c.options.Value)
		rows = others
	}
	return b.Bytes()
}
