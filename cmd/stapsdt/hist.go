//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/program"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"

	"github.com/spf13/cobra"
)

type hist struct {
	aggregate
	linear string
}

func (s *session) histCommand() *cobra.Command {
	h := &hist{aggregate: aggregate{tracing: tracing{session: s}}}
	c := &cobra.Command{
		Use:   "hist SPEC EXPR (-p PID | -a | with FILE in SPEC)",
		Short: "Print a histogram and quantiles of a value",
		Long: `Collect the values of a Go expression in the kernel, until Ctrl-C, and print a histogram
and quantiles. The buckets are powers of two, or of one size with --linear.

SPEC is [FILE:]PROVIDER:PROBE. Without a FILE, -p or -a says which processes are meant.`,
		Example: `  stapsdt hist -p 1234 myapp:request__done elapsed
  stapsdt hist -a myapp:request__done elapsed/time.Millisecond --by path --linear 0:100:10`,
		RunE: func(c *cobra.Command, args []string) error { return h.run(c.Context(), args) },
	}
	h.flags(c)
	return c
}

func (h *hist) flags(c *cobra.Command) {
	h.aggregate.flags(c)
	c.Flags().StringVar(&h.linear, "linear", "", "buckets of one size, from `LOW:HIGH:STEP`; durations such as 10ms are allowed")
}

func (h *hist) run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return usagef("hist takes a SPEC and an expression, such as myapp:request__done elapsed")
	}
	h.value = args[1]
	if err := checkSyntax(h.value); err != nil {
		return err
	}
	if err := h.divide(); err != nil {
		return err
	}
	return h.aggregate.run(ctx, args[:1], h.show)
}

// divide sets the buckets.
func (h *hist) divide() (err error) {
	h.buckets = program.Powers{}
	if h.linear != "" {
		h.buckets, err = parseLinear(h.linear)
	}
	return err
}

func parseLinear(text string) (program.Buckets, error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return nil, usagef("--linear %s is not LOW:HIGH:STEP", text)
	}
	var numbers [3]int64
	for i, part := range parts {
		n, err := strconv.ParseInt(part, 0, 64)
		if err != nil {
			var d time.Duration
			if d, err = time.ParseDuration(part); err != nil {
				return nil, usagef("--linear %s: %q is neither an integer nor a duration", text, part)
			}
			n = int64(d)
		}
		numbers[i] = n
	}
	l := program.Linear{Low: numbers[0], High: numbers[1], Step: numbers[2]}
	if err := l.Check(); err != nil {
		return nil, usagef("--linear %s: %w", text, err)
	}
	return l, nil
}

func (h *hist) show(rows []*row) ([]byte, error) {
	if h.output == "json" {
		return h.jsonRows(rows, h.json), nil
	}
	if len(rows) == 0 {
		return []byte("no events\n"), nil
	}
	var b bytes.Buffer
	for len(rows) > 0 {
		other := func(r *row) bool { return r.of != rows[0].of }
		own, others := slices.DeleteFunc(slices.Clone(rows), other), make([]*row, 0, len(rows))
		for _, r := range rows {
			if other(r) {
				others = append(others, r)
			}
		}
		h.rowsText(&b, own, " "+h.value)
		rows = others
	}
	return b.Bytes(), nil
}

// manyRows is from how many rows on a table is shown instead of their histograms.
const manyRows = 5

// rowsText writes the histograms of rows, or a table if there are many.
func (h *hist) rowsText(b *bytes.Buffer, rows []*row, of string) {
	shown, others := h.most(rows)
	if len(rows) < manyRows {
		for _, r := range shown {
			separate(b)
			h.text(b, r, of)
		}
		b.WriteString(others)
		return
	}
	separate(b)
	fmt.Fprintln(b, render.Cut(render.Printable(rows[0].of.String())+of, columns(h.stdout)))
	table := render.Table{Right: 4, Width: columns(h.stdout)}
	table.Add(append([]string{"COUNT", "AVERAGE", "P50", "P99"}, h.by...)...)
	for _, r := range shown {
		hg := h.histogram(r)
		cells := []string{fmt.Sprint(r.count), hg.Format(hg.Average()), hg.Format(hg.Quantile(0.5)), hg.Format(hg.Quantile(0.99))}
		table.Add(append(cells, r.text...)...)
	}
	b.Write(table.Text())
	b.WriteString(others)
}

// text writes a row with its title.
func (h *hist) text(b *bytes.Buffer, r *row, of string) {
	title := render.Printable(r.of.String()) + of
	for i, text := range r.text {
		title += fmt.Sprintf(" %s=%s", h.by[i], text)
	}
	fmt.Fprintln(b, render.Cut(title, columns(h.stdout)))
	h.histogram(r).Text(b, columns(h.stdout))
}

func (h *hist) histogram(r *row) *render.Histogram {
	hg := &render.Histogram{Type: r.value}
	for i := range h.buckets.Len() {
		got, ok := r.buckets[i]
		if !ok {
			continue
		}
		low, high := h.buckets.Bounds(i)
		hg.Buckets = append(hg.Buckets, render.Bucket{Low: low, High: high, Count: got.count, Sum: got.sum})
	}
	hg.Sort()
	if h.linear == "" {
		hg.Group = render.PowersOfTwo
	}
	return hg
}

func (h *hist) json(r *row) string {
	hg := h.histogram(r)
	var b strings.Builder
	fmt.Fprintf(&b, `,"count":%d,"average":%s`, r.count, number(hg.Average()))
	for _, q := range render.Quantiles {
		fmt.Fprintf(&b, `,"%s":%s`, q.Name, number(hg.Quantile(q.Part)))
	}
	var buckets []string
	for _, k := range hg.Buckets {
		buckets = append(buckets, fmt.Sprintf(`{"low":%s,"high":%s,"count":%d}`, number(k.Low), number(k.High), k.Count))
	}
	fmt.Fprintf(&b, `,"buckets":[%s]`, strings.Join(buckets, ","))
	return b.String()
}

// number is a number in JSON, which has no infinity: null.
func number(f float64) string {
	return string(render.AppendJSONFloat(nil, f))
}
