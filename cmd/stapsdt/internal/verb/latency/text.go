package latency

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"
)

// show shows the times. last means that they are final, and are shown completely.
func (l *latency) show(last bool) error {
	rows, err := l.source.Rows()
	if err != nil {
		return err
	}
	rows = count.Sorted(rows, &l.options)
	all, err := l.source.unpaired()
	if err != nil {
		return err
	}
	if l.format.IsJSON() {
		return l.encode(rows, all)
	}
	return l.screen.Show(l.text(rows, all), last)
}

// text formats the times for people.
func (l *latency) text(rows []*count.Row[*operation], all []unpaired) []byte {
	if len(all) == 0 {
		return []byte("no events\n")
	}
	var b bytes.Buffer
	h := count.Histograms{Options: &l.options, Columns: console.Columns(l.Out)}
	for i, o := range l.kinds.all {
		if o.unfit {
			continue
		}
		u := &all[i]
		var own []*count.Row[*operation]
		for _, r := range rows {
			if r.Of == o {
				own = append(own, r)
			}
		}
		count.WriteHistograms(&b, h, own, "")
		switch {
		case len(own) == 0:
			count.Separate(&b)
			fmt.Fprintln(&b, render.Cut(render.Printable(o.String()), h.Columns))
			count.WriteDetached(&b, l.source.detached(o))
			fmt.Fprintln(&b, "no pairs")
		case len(own) > 1: // the following lines do not belong to the last row only
			count.Separate(&b)
		}
		open := fmt.Sprintf("%d still open", u.open)
		if u.unknown > 0 {
			open += fmt.Sprintf(", %d with an end that may be lost", u.unknown)
		}
		since := ""
		if l.past != nil {
			since = "; since " + l.past.Since().Format(time.TimeOnly)
		}
		fmt.Fprintf(&b, "%s without an end (%s); %s without a start%s\n", render.Number(u.starts, "start"), open, render.Number(u.ends, "end"), since)
		l.openTable(&b, u)
	}
	return b.Bytes()
}

// openTable writes the operations that have been open longest, and then the operations that may
// have ended, because the end may be lost, with the maximum of their times.
func (l *latency) openTable(b *bytes.Buffer, u *unpaired) {
	if len(u.oldest) == 0 {
		return
	}
	header := []string{"OPEN FOR", "PID"}
	first := u.oldest[0]
	switch {
	case first.Goroutine != 0:
		header = append(header, "GOROUTINE")
	case first.TID != 0: // events of a page have neither
		header = append(header, "TID")
	}
	table := render.Table{Right: len(header), Width: console.Columns(l.Out)}
	table.Add(
		slices.Concat(header, []string{strings.ToUpper(first.Columns.Key)}, first.Columns.Names)...)
	for _, o := range u.oldest {
		cells := []string{render.OpenFor(o.For(), !o.IsOpen()), fmt.Sprint(o.PID)}
		if len(header) > len(cells) {
			cells = append(cells, fmt.Sprint(uint64(o.TID)+o.Goroutine))
		}
		cells = append(cells, o.Key.ForText())
		for _, v := range o.Details {
			text := ""
			if v.Item != nil {
				text = v.ForText()
			}
			cells = append(cells, text)
		}
		table.Add(cells...)
	}
	b.Write(table.Text())
}
