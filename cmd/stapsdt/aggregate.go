//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/program"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/symbol"
	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/cilium/ebpf"
	"github.com/spf13/cobra"
)

// aggregate is what count, hist, latency and stack have in common: tables in the kernel, which
// are shown at the end, and by all but stack at intervals.
type aggregate struct {
	tracing
	output   string
	by       []string
	interval time.Duration
	number   int // of the rows that are shown, or 0 for all

	value   string // of a histogram
	buckets program.Buckets
	stacks  *stacks // of stack

	skipped []error              // of probes that lack what an expression asks for
	tick    func() error         // is called now and then, if it is set
	tables  map[string]*ebpf.Map // by layout
	counted []*counted           // by the numbers in the rows
	next    time.Time            // when to show the numbers
	shown   time.Time            // when they were shown last
	counts  map[string]uint64    // and which they were, by row.key
	lines   int                  // and how many lines that took
}

// counted is the program of a probe.
type counted struct {
	*program.Aggregate
	of    subject
	table *ebpf.Map
	own   bool // whether no other program has this table
}

// subject is what a row counts the events of.
type subject interface {
	String() string
	// json returns the members of an object that say what it is.
	json() string
}

// probeName is the subject of count and hist.
type probeName struct{ provider, probe string }

func (n probeName) String() string { return n.provider + ":" + n.probe }

func (n probeName) json() string {
	return fmt.Sprintf(`"provider":%s,"probe":%s`, render.AppendJSONString(nil, n.provider), render.AppendJSONString(nil, n.probe))
}

func (a *aggregate) flags(c *cobra.Command) {
	a.tracing.flags(c)
	outputFlag(c, &a.output)
	a.byFlag(c)
	a.numberFlag(c, "rows")
	c.Flags().DurationVarP(&a.interval, "interval", "i", 0, "show the numbers at this interval too, such as 1s")
}

func (a *aggregate) byFlag(c *cobra.Command) {
	c.Flags().StringArrayVar(&a.by, "by", nil, "count for each value of the Go expressions `EXPR,...` separately")
}

func (a *aggregate) numberFlag(c *cobra.Command, what string) {
	c.Flags().IntVarP(&a.number, "number", "n", 20, "with -o text, the `N` most frequent "+what+", or 0 for all")
}

func (a *aggregate) checkNumber() error {
	if a.number < 0 {
		return usagef("-n %d is negative", a.number)
	}
	return nil
}

// most returns the rows that are shown, and a line about the others.
func (a *aggregate) most(rows []*row) (shown []*row, others string) {
	if a.number == 0 || len(rows) <= a.number {
		return rows, ""
	}
	n := uint64(0)
	for _, r := range rows[a.number:] {
		n += r.count
	}
	return rows[:a.number], fmt.Sprintf("and %s in %s (-n 0 shows all)\n", render.Number(n, "event"), render.Number(len(rows)-a.number, "other row"))
}

// A table with keys can have so many rows, but one of a histogram that is large because there
// are many processors has fewer.
const (
	maxRows  = 16384
	maxBytes = 64 << 20
)

// histRows is the number of rows of a histogram with keys, of which each bucket is one.
func histRows() uint32 {
	const rowSize = 16
	return min(4*maxRows, max(maxRows/4, maxBytes/uint32(rowSize*ebpf.MustPossibleCPU())))
}

// run counts, and shows the numbers with show.
func (a *aggregate) run(ctx context.Context, specs []string, show func(rows []*row) ([]byte, error)) error {
	if err := checkOutput(a.output); err != nil {
		return err
	}
	if err := a.checkNumber(); err != nil {
		return err
	}
	if a.interval < 0 {
		return usagef("the interval %v is negative", a.interval)
	}
	defer a.close()
	a.shown, a.counts = time.Now(), map[string]uint64{}
	a.next = a.shown.Add(a.interval)
	err := a.collect(ctx, specs, func() (time.Duration, error) {
		if a.tick != nil {
			if err := a.tick(); err != nil {
				return 0, err
			}
		}
		if a.interval == 0 {
			return engine.Rest, nil
		}
		if wait := time.Until(a.next); wait > 0 {
			return wait, nil
		}
		a.next = a.next.Add(a.interval)
		return 0, a.display(show, false)
	})
	if err != nil {
		return err
	}
	if err := a.display(show, true); err != nil {
		return err
	}
	return a.report()
}

// ticker is an engine.Consumer that is called when the time has come that it returned last.
type ticker func() (next time.Duration, err error)

// FDs returns none.
func (ticker) FDs() []int { return nil }

// Tick calls the function.
func (t ticker) Tick() (next time.Duration, more bool, err error) {
	next, err = t()
	return next, true, err
}

// collect counts until it is to end, and calls tick meanwhile.
func (a *aggregate) collect(ctx context.Context, specs []string, tick ticker) (err error) {
	if a.by, err = splitExprs(a.by); err != nil {
		return err
	}
	a.tables = map[string]*ebpf.Map{}
	if a.load == nil {
		a.load = a.section
	}
	if err := a.open(specs); err != nil {
		return err
	}
	if a.stacks != nil {
		if err := a.stacks.open(); err != nil {
			return err
		}
	}
	if err := a.begin(); err != nil {
		return a.orSkipped(err)
	}
	if err := a.orSkipped(nil); err != nil {
		return err
	}
	a.announce()
	if err := a.watch(ctx, tick); err != nil {
		return err
	}
	return a.detach()
}

// report says which events are not included.
func (a *aggregate) report() error {
	stats, err := a.env.ReadStats()
	if err != nil {
		return err
	}
	if stats.Lost > 0 {
		what := "values of --by"
		if a.stacks != nil {
			what = "stacks"
		}
		a.warn("%d events were lost, because there are too many different %s", stats.Lost, what)
	}
	a.unevaluated(stats)
	return nil
}

func (a *aggregate) close() {
	a.tracing.close()
	for _, table := range a.tables {
		table.Close()
	}
	for _, c := range a.counted {
		if c.own {
			c.table.Close()
		}
	}
}

func (a *aggregate) section(p *program.Probe, id uint32) (*program.Section, error) {
	agg, err := program.NewAggregate(p, a.filter, a.by, a.value, a.buckets)
	var wrong *expr.Error
	if errors.As(err, &wrong) {
		return nil, a.skip(p, err)
	}
	if err != nil {
		return nil, err
	}
	if a.stacks != nil {
		agg.CountStacks(a.stacks.kernel)
	}
	c := &counted{Aggregate: agg, of: probeName{p.Provider, p.Name}}
	return a.count(c, func() (*program.Section, error) { return agg.Section(a.env, c.table, id) })
}

// skip leaves out a probe that lacks what an expression asks for. If no other has it, that is an
// error in the end.
func (a *aggregate) skip(p *program.Probe, err error) error {
	err = fmt.Errorf("%v: %w", p, err)
	if a.running {
		a.warn("%v is not included: %v", p, err)
	} else {
		a.skipped = append(a.skipped, err)
	}
	a.counted = append(a.counted, &counted{}) // the next probe has the next number
	return nil
}

// orSkipped returns the error of the probes that were left out if none is left, and otherwise err.
// It says which they are.
func (a *aggregate) orSkipped(err error) error {
	if len(a.skipped) == 0 {
		return err
	}
	if len(a.skipped) == len(a.counted) {
		return a.skipped[0]
	}
	for _, why := range a.skipped {
		first, _, _ := strings.Cut(why.Error(), "\n")
		a.warn("not included: %s", first)
	}
	a.skipped = nil
	return err
}

// count gives a program a table, and appends it to those that are shown.
func (a *aggregate) count(c *counted, make func() (*program.Section, error)) (section *program.Section, err error) {
	layout := c.Layout()
	if c.own = a.buckets != nil && len(a.by) == 0; !c.own {
		c.table = a.tables[layout]
	}
	if c.table == nil {
		rows := uint32(maxRows)
		if a.buckets != nil {
			rows = histRows()
		}
		if c.table, err = c.NewTable(rows); err != nil {
			return nil, program.MapError(err)
		}
		if !c.own {
			a.tables[layout] = c.table
		}
	}
	if section, err = make(); err != nil {
		if c.own {
			c.table.Close()
		}
		return nil, err
	}
	a.counted = append(a.counted, c)
	return section, nil
}

// row is what was counted of a subject with the same values of --by, at all of its sites.
type row struct {
	key        string
	of         subject
	value      expr.Type // of a histogram
	text, json []string  // of the values of --by
	count      uint64
	rate       float64 // per second, since it was shown last
	buckets    map[int]bucket
	stack      *symbol.Stack
}

type bucket struct{ count, sum uint64 }

// rows reads the tables.
func (a *aggregate) rows() ([]*row, error) {
	merged := map[string]*row{}
	seen := map[*ebpf.Map]bool{}
	for i, c := range a.counted {
		if c.table == nil || seen[c.table] {
			continue
		}
		seen[c.table] = true
		err := c.Rows(c.table, len(a.counted), func(r program.Row) {
			id := int(r.ID)
			if c.own {
				id = i
			}
			a.merge(merged, id, r)
		})
		if err != nil {
			return nil, err
		}
	}
	all := make([]*row, 0, len(merged))
	for _, r := range merged {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *row) int {
		return cmp.Or(-cmp.Compare(a.count, b.count), cmp.Compare(a.of.String(), b.of.String()), slices.Compare(a.text, b.text), cmp.Compare(a.key, b.key))
	})
	return all, nil
}

func (a *aggregate) merge(merged map[string]*row, id int, r program.Row) {
	c := a.counted[id]
	n := &row{of: c.of, value: c.Value, buckets: map[int]bucket{}}
	key := c.of.String()
	for i := range c.Keys {
		bits, text, cut := c.Keys[i].In(r.Key)
		n.text = append(n.text, string(render.KeyText(&c.Keys[i], bits, text, cut)))
		n.json = append(n.json, string(render.KeyJSON(&c.Keys[i], bits, text)))
		key += "\x00" + n.text[i]
	}
	if a.stacks != nil {
		n.stack = a.stacks.find(a.probes[id].Name, r)
		key += "\x00" + n.stack.Key()
	}
	if merged[key] == nil {
		n.key = key
		merged[key] = n
	}
	n = merged[key]
	n.count += r.Count
	b := n.buckets[r.Bucket]
	n.buckets[r.Bucket] = bucket{b.count + r.Count, b.sum + r.Sum}
}

// display shows the numbers: on a terminal instead of those before, and only as many as it
// has space for, apart from the last.
func (a *aggregate) display(show func([]*row) ([]byte, error), last bool) error {
	rows, err := a.rows()
	if err != nil {
		return err
	}
	now := time.Now()
	for _, r := range rows {
		r.rate = float64(r.count-a.counts[r.key]) / now.Sub(a.shown).Seconds()
		a.counts[r.key] = r.count
	}
	a.shown = now
	text, err := show(rows)
	if err != nil {
		return err
	}
	if height, width, ok := terminal(a.stdout); ok && a.output == "text" {
		if !last {
			text = []byte(fit(string(text), height, width))
		}
		a.lines, text = bytes.Count(text, []byte("\n")), append(erase(a.lines, last), text...)
	} else if a.output == "text" {
		if a.lines > 0 {
			text = append([]byte("\n"), text...)
		}
		a.lines = 1
	}
	_, err = a.stdout.Write(text)
	return err
}
