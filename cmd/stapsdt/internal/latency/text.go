//go:build linux

package latency

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/count"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
)

// show shows the times, the last ones completely.
func (l *latency) show(last bool) error {
	rows, err := l.tables.Rows()
	if err != nil {
		return err
	}
	all, err := l.unpaired()
	if err != nil {
		return err
	}
	now := event.Now()
	if l.options.JSON {
		return l.encode(rows, all, now)
	}
	return l.screen.Show(l.text(rows, all, now), last)
}

// text returns the times for people.
func (l *latency) text(rows []*count.Row[*operation], all []unpaired, now time.Duration) []byte {
	if len(all) == 0 {
		return []byte("no events\n")
	}
	var b bytes.Buffer
	h := count.Histograms{Options: &l.options, Columns: console.Columns(l.run.Out)}
	for i, o := range l.kinds.all {
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
			fmt.Fprintf(&b, "%s\nno pairs\n", render.Cut(render.Printable(o.String()), h.Columns))
		case len(own) > 1: // what follows is not of the last row
			count.Separate(&b)
		}
		fmt.Fprintf(&b, "%s without an end (%d still open); %s without a start\n", render.Number(u.starts, "start"), len(u.open), render.Number(u.ends, "end"))
		l.openTable(&b, u, now)
	}
	return b.Bytes()
}

// openTable writes those that have been open longest.
func (l *latency) openTable(b *bytes.Buffer, u *unpaired, now time.Duration) {
	if len(u.open) == 0 {
		return
	}
	plan := l.operations.Plan
	table := render.Table{Right: 3, Width: console.Columns(l.run.Out)}
	header := []string{"OPEN FOR", "PID", "TID", strings.ToUpper(l.keyName())}
	for _, item := range plan.Open {
		header = append(header, item.Name)
	}
	table.Add(header...)
	for _, o := range u.oldest() {
		bits, text, cut := plan.Key.In(o.Key)
		cells := []string{
			render.Duration(float64(now - o.Since)), fmt.Sprint(o.PID), fmt.Sprint(o.TID),
			string(render.KeyText(&plan.Key, bits, text, cut)),
		}
		for i := range plan.Open {
			cell := ""
			if item := &plan.Open[i]; o.Known(i) {
				bits, text, cut := item.In(o.Value)
				cell = string(render.KeyText(item, bits, text, cut))
			}
			cells = append(cells, cell)
		}
		table.Add(cells...)
	}
	b.Write(table.Text())
}
