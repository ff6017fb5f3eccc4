package count

import (
	"bytes"
	"fmt"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
)

// By returns the values of --by as a JSON object.
func (r *Row[S]) By(names []string) render.JSONObject {
	return render.JSONObject{Names: names, Values: r.JSON}
}

// Histogram returns the histogram of a row.
func (r *Row[S]) Histogram(buckets query.Buckets) *render.Histogram {
	return render.NewHistogram(r.Value, buckets, r.Buckets)
}

// Histograms defines how the histograms of rows are shown to people.
type Histograms struct {
	*Options
	Columns int // the width of the terminal
}

// manyRows is the number of rows from which a table replaces histograms.
const manyRows = 5

// WriteHistograms writes the histograms of rows of one subject, or a table if there are many rows.
// of is a part of their titles.
func WriteHistograms[S Subject](b *bytes.Buffer, h Histograms, rows []*Row[S], of string) {
	if len(rows) == 0 {
		return
	}
	shown, others := most(rows, h.Limit)
	if len(rows) < manyRows && !h.Table {
		for _, r := range shown {
			Separate(b)
			title, by := render.Printable(r.Of.String())+of, ""
			for i, text := range r.Text {
				by += fmt.Sprintf(" %s=%s", h.By[i], text)
			}
			if whole := title + by; render.Cut(whole, h.Columns) == whole {
				title, by = whole, ""
			}
			fmt.Fprintln(b, render.Cut(title, h.Columns))
			if by != "" { // by which histograms can be told apart
				fmt.Fprintln(b, render.Cut(by, h.Columns))
			}
			WriteDetached(b, r.Detached)
			r.Histogram(h.Buckets).Text(b, h.Columns)
		}
		b.WriteString(others)
		return
	}
	Separate(b)
	fmt.Fprintln(b, render.Cut(render.Printable(rows[0].Of.String())+of, h.Columns))
	WriteDetached(b, rows[0].Detached)
	table := render.Table{Right: 5, Width: h.Columns}
	table.Add(append([]string{"COUNT", "AVERAGE", "P50", "P99", "MAX"}, h.By...)...)
	for _, r := range shown {
		hg := r.Histogram(h.Buckets)
		cells := []string{
			fmt.Sprint(r.Count),
			hg.Format(hg.Average()),
			hg.Format(hg.Quantile(0.5)),
			hg.Format(hg.Quantile(0.99)),
			hg.Format(hg.Quantile(1)),
		}
		table.Add(append(cells, r.Text...)...)
	}
	b.Write(table.Text())
	b.WriteString(others)
}

// WriteDetached writes a line below a title if the probes of the subject were detached from.
func WriteDetached(b *bytes.Buffer, d *query.Detachment) {
	if d != nil {
		fmt.Fprintf(b, "detached %v\n", d)
	}
}

// Separate writes an empty line, unless b is empty.
func Separate(b *bytes.Buffer) {
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
}
