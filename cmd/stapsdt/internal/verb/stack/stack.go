//go:build linux

// Package stack counts events by the call stacks from which they were fired.
package stack

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/symbol"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/run"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/source"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/stacks"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/outfile"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"
)

// Formats are the formats of the stacks.
var Formats = []string{"text", "json", "folded", "pprof"}

// Options select what is counted, and how it is shown.
type Options struct {
	By []string
	// Format is one of Formats.
	Format string
	// File is the output file, or "" for standard output.
	File string
	// Limit is the maximum number of stacks in the text format, or 0 for all.
	Limit int
	// Verbose shows the frames of the stapsdt library too.
	Verbose bool
}

func (o *Options) check(to *console.Console) error {
	if o.Format == "pprof" && console.IsTerminal(to.Out) && o.File == "" {
		return query.Usagef("a profile is not for a terminal: use -O FILE, or > FILE")
	}
	return count.CheckLimit(o.Limit)
}

const (
	// interval is the interval at which the functions of new stacks are found.
	interval = 50 * time.Millisecond
	// share limits this to 1/share of a processor.
	share = 20
)

// resolver finds the functions of stacks while events are counted, because processes may exit
// soon. It is an engine.Ticker.
type resolver struct {
	*count.Counter
	next time.Time
}

func (r *resolver) FDs() []int { return nil }

func (r *resolver) Tick() (next time.Duration, more bool, err error) {
	if wait := time.Until(r.next); wait > 0 {
		return wait, true, nil
	}
	before := time.Now()
	_, err = r.Rows()
	r.next = time.Now().Add(max(interval, share*time.Since(before)))
	return time.Until(r.next), true, err
}

// Run counts stacks until the run ends, and shows them.
func Run(ctx context.Context, to *console.Console, config query.Config, o Options) (err error) {
	if err := o.check(to); err != nil {
		return err
	}
	if config.Via == query.ViaSocket {
		return query.Usagef("only the kernel walks stacks, but --via socket excludes it")
	}
	out := to.Out
	if o.File != "" {
		// Fail before the run if the file cannot be written.
		f, err := outfile.Create(o.File, "")
		if err != nil {
			return err
		}
		out = f
		defer func() {
			if closeErr := f.Close(); err == nil {
				err = closeErr
			}
		}()
	}
	start := time.Now()
	if o.By, err = query.SplitExprs(o.By); err != nil {
		return err
	}
	if o.Format == "json" && o.File == "" {
		config.Format = query.JSON
	}
	config.Kernel = "stack"
	r, err := run.New(to, config, run.Options{Exprs: o.By, Stacks: true})
	if err != nil {
		return source.Refuse(err, &config)
	}
	defer r.Close()
	known := stacks.New(r.Table, r.Env.Debug, o.Verbose)
	defer known.Close()
	c := count.NewCounter(r, count.Expressions{By: o.By}, known)
	defer c.Close()
	if err := c.Attach(); err != nil {
		return err
	}
	if err := r.Wait(ctx, &resolver{Counter: c}); err != nil {
		return err
	}
	if err := o.write(out, c, start); err != nil {
		return err
	}
	known.Report(to)
	return c.Report("stacks")
}

// write writes the stacks.
func (o *Options) write(to io.Writer, c *count.Counter, start time.Time) error {
	counted, err := c.Rows()
	if err != nil {
		return err
	}
	var rows []row
	for _, r := range counted {
		rows = append(rows, row{r, c.Stack(r)})
	}
	stacks := table{o, rows, start, time.Since(start)}
	return stacks.write(to)
}

// write writes the stacks in their format.
func (t *table) write(to io.Writer) (err error) {
	switch t.Format {
	case "text":
		text := t.text()
		if _, _, ok := console.Size(to); ok {
			text = append(console.Erase(0, true), text...)
		}
		_, err = to.Write(text)
	case "json":
		err = t.encode(to, t.rows)
	case "folded":
		_, err = to.Write(t.folded())
	case "pprof":
		err = t.profile().Write(to)
	default:
		panic("stacks are not written as " + t.Format)
	}
	return err
}

// row is a row of counts with its stack.
type row struct {
	*count.Row[count.Probe]
	Stack *symbol.Stack
}

// events returns the number of events of rows.
func events(rows []row) (n uint64) {
	for _, r := range rows {
		n += r.Count
	}
	return n
}

// table has the stacks from which probes were fired, the most frequent first.
type table struct {
	*Options
	rows []row
	// start and duration are the time in which the events were counted.
	start    time.Time
	duration time.Duration
}

// text returns the stacks with a line for each function, the innermost first.
func (t *table) text() []byte {
	total := events(t.rows)
	if total == 0 {
		return []byte("no events\n")
	}
	table := render.Table{Right: 2}
	table.Add("COUNT", "PERCENT", "PROBE")
	percent := func(n uint64) string { return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(total)) }
	shown := t.rows
	if t.Limit > 0 {
		shown = shown[:min(t.Limit, len(shown))]
	}
	for _, r := range shown {
		title := r.Of.String()
		for i, text := range r.Text {
			title += fmt.Sprintf(" %s=%s", t.By[i], text)
		}
		if r.Detached != nil {
			title += fmt.Sprintf(" (detached %v)", r.Detached)
		}
		table.Add(fmt.Sprint(r.Count), percent(r.Count), title)
		for _, line := range r.Stack.Lines() {
			table.Add("", "", "  "+line)
		}
	}
	if rest := t.rows[len(shown):]; len(rest) > 0 {
		n := events(rest)
		table.Add(fmt.Sprint(n), percent(n), "from "+render.Number(len(rest), "other stack"))
	}
	return table.Text()
}

// folded returns a line for each stack in the format of flame graph programs: the probe, the values
// of --by, and the functions, the outermost first, separated by semicolons.
func (t *table) folded() []byte {
	counts := map[string]uint64{}
	for _, r := range t.rows {
		line := []string{r.Of.String()}
		for i, text := range r.Text {
			line = append(line, t.By[i]+"="+text)
		}
		line = append(line, callers(r.Stack)...)
		for i := range line {
			line[i] = strings.ReplaceAll(render.Printable(line[i]), ";", ":")
		}
		counts[strings.Join(line, ";")] += r.Count
	}
	var b bytes.Buffer
	for _, line := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "%s %d\n", line, counts[line])
	}
	return b.Bytes()
}

// callers returns the names of the functions, the outermost first.
func callers(s *symbol.Stack) (names []string) {
	for i := range s.Frames {
		names = append(names, s.Frames[i].Names()...)
	}
	if s.Cut != symbol.Whole {
		names = append(names, fmt.Sprintf("[%v]", s.Cut))
	}
	slices.Reverse(names)
	return names
}
