//go:build linux

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/program"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"

	"github.com/cilium/ebpf"
)

// unpaired is what there is of a kind of operation without a counterpart.
type unpaired struct {
	starts, ends uint64 // starts that have not ended, and ends that have not started
	open         []program.Open
}

// longest is how many of the operations that are open are shown.
const longest = 10

// unpaired reads what has no counterpart. What is open comes in the order of its start.
func (l *latency) unpaired() ([]unpaired, error) {
	all := make([]unpaired, len(l.kinds))
	l.full = 0
	for i := range all {
		t, err := program.ReadTotals(l.operations.Totals, uint32(i))
		if err != nil {
			return nil, err
		}
		// While they are counted, an end may be counted and its start not yet.
		all[i].starts, all[i].ends = t.Starts-min(t.Starts, t.Pairs), t.Ends
		l.full += t.Full
	}
	if l.plan == nil {
		return all, nil
	}
	open, _, err := sorted(l.operations.Open)
	if err != nil {
		return nil, err
	}
	for _, o := range open {
		if o.Since != 0 && int(o.Kind) < len(all) {
			all[o.Kind].open = append(all[o.Kind].open, o)
		}
	}
	for _, u := range all {
		slices.SortFunc(u.open, func(a, b program.Open) int { return cmp.Compare(a.Since, b.Since) })
	}
	return all, nil
}

// sorted reads the operations that are open, and those whose process has ended.
func sorted(table *ebpf.Map) (open, dead []program.Open, err error) {
	all, err := program.ReadOpen(table)
	if err != nil {
		return nil, nil, err
	}
	lives := living{}
	for _, o := range all {
		if lives.has(o.PID) {
			open = append(open, o)
		} else {
			dead = append(dead, o)
		}
	}
	return open, dead, nil
}

// living says of processes whether they exist, and looks at each once. One in another PID
// namespace has no number here.
type living map[int]bool

func (l living) has(pid int) bool {
	lives, known := l[pid]
	if !known {
		lives = pid == 0 || target.Alive(pid)
		l[pid] = lives
	}
	return lives
}

// sweeping is how often the operations of processes that have ended are removed.
const sweeping = 10 * time.Second

// sweep removes the operations that cannot end any more, because their process has. swept is
// when it last did.
func sweep(tables *program.OperationTables, g *goroutines, swept *time.Time) error {
	if tables == nil || time.Since(*swept) < sweeping {
		return nil
	}
	*swept = time.Now()
	g.forget()
	_, dead, err := sorted(tables.Open)
	if err != nil {
		return err
	}
	for _, o := range dead {
		_ = tables.Open.Delete(o.Key) // a new process can have the number, and have ended it
	}
	return nil
}

func (l *latency) sweep() error { return sweep(l.operations, &l.goroutines, &l.swept) }

func (l *latency) show(rows []*row) ([]byte, error) {
	all, err := l.unpaired()
	if err != nil {
		return nil, err
	}
	now := event.Now()
	if l.output == "json" {
		text := l.jsonRows(rows, l.json)
		for i, o := range l.kinds {
			text = append(text, l.jsonUnpaired(o, &all[i], now)...)
		}
		return text, nil
	}
	if len(l.kinds) == 0 {
		return []byte("no events\n"), nil
	}
	var b bytes.Buffer
	for i, o := range l.kinds {
		u := &all[i]
		own := slices.DeleteFunc(slices.Clone(rows), func(r *row) bool { return r.of != subject(o) })
		l.rowsText(&b, own, "")
		switch {
		case len(own) == 0:
			separate(&b)
			fmt.Fprintf(&b, "%s\nno pairs\n", render.Cut(render.Printable(o.String()), columns(l.stdout)))
		case len(own) > 1: // what follows is not of the last row
			separate(&b)
		}
		fmt.Fprintf(&b, "%s without an end (%d still open); %s without a start\n", render.Number(u.starts, "start"), len(u.open), render.Number(u.ends, "end"))
		l.openTable(&b, u, now)
	}
	return b.Bytes(), nil
}

// separate writes an empty line, if something comes before.
func separate(b *bytes.Buffer) {
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
}

// openTable writes those that have been open longest.
func (l *latency) openTable(b *bytes.Buffer, u *unpaired, now time.Duration) {
	if len(u.open) == 0 {
		return
	}
	table := render.Table{Right: 3, Width: columns(l.stdout)}
	header := []string{"OPEN FOR", "PID", "TID", strings.ToUpper(l.keyName())}
	for _, item := range l.plan.Open {
		header = append(header, item.Name)
	}
	table.Add(header...)
	for _, o := range u.open[:min(len(u.open), longest)] {
		bits, text, cut := l.plan.Key.In(o.Key)
		cells := []string{
			render.Duration(float64(now - o.Since)), fmt.Sprint(o.PID), fmt.Sprint(o.TID),
			string(render.KeyText(&l.plan.Key, bits, text, cut)),
		}
		for i := range l.plan.Open {
			cell := ""
			if item := &l.plan.Open[i]; o.Known(i) {
				bits, text, cut := item.In(o.Value)
				cell = string(render.KeyText(item, bits, text, cut))
			}
			cells = append(cells, cell)
		}
		table.Add(cells...)
	}
	b.Write(table.Text())
}

// keyName is the name of the argument that the key is, or its expression.
func (l *latency) keyName() string {
	if l.key == "arg0" {
		return l.selector.Specs[0].First.ArgName(0)
	}
	return l.key
}

// jsonUnpaired returns the object for an operation's unpaired starts and ends.
func (l *latency) jsonUnpaired(o *operation, u *unpaired, now time.Duration) string {
	var open []string
	for i := range u.open[:min(len(u.open), longest)] {
		open = append(open, l.jsonOpen(&u.open[i], now))
	}
	return fmt.Sprintf(`{"time":"%s",%s,"starts_without_end":%d,"ends_without_start":%d,"open":%d,"longest":[%s]}`+"\n",
		time.Now().UTC().Format(time.RFC3339Nano), o.json(), u.starts, u.ends, len(u.open), strings.Join(open, ","))
}

// jsonOpen returns the object for an operation that is open.
func (l *latency) jsonOpen(o *program.Open, now time.Duration) string {
	var names, values []string
	by := 0
	for i := range l.plan.Open {
		item := &l.plan.Open[i]
		if !o.Known(i) {
			continue
		}
		bits, text, _ := item.In(o.Value)
		names, values = append(names, item.Name), append(values, string(render.KeyJSON(item, bits, text)))
		if i < l.plan.OpenBy {
			by++
		}
	}
	bits, text, _ := l.plan.Key.In(o.Key)
	return fmt.Sprintf(`{"nanoseconds":%d,"pid":%d,"tid":%d,"key":%s,"by":%s,"args":%s}`,
		now-o.Since, o.PID, o.TID, render.KeyJSON(&l.plan.Key, bits, text), jsonObject(names[:by], values[:by]), jsonObject(names[by:], values[by:]))
}
