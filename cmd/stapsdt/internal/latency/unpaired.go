//go:build linux

package latency

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
)

// unpaired is what there is of a kind of operation without a counterpart.
type unpaired struct {
	starts, ends uint64 // starts that have not ended, and ends that have not started
	open         int
	unknown      int             // starts whose end may have been lost
	oldest       []openOperation // of those that are open, and then of those that may be, maxOpenShown at most
	columns      columns         // of oldest
}

// maxOpenShown is how many of the operations that are open are shown: those that have been open longest.
const maxOpenShown = 10

// openOperation is an operation that is open, as it is shown.
type openOperation struct {
	since     time.Duration // how long, or at most how long if its end may have been lost
	unknown   bool
	pid       int
	tid       int    // or 0 if it is unknown
	goroutine uint64 // or 0 if it is unknown
	key       value
	details   []value // by the names of columns
}

// value is how a value is shown to people, and to programs. It is not known if there is none for programs.
type value struct {
	text string
	json json.RawMessage
}

// columns are the names of what is shown of the operations of a kind that are open: of what pairs a start with its end, and of their details. The
// first by of these are of --by, and the others are arguments of the start.
type columns struct {
	key   string
	names []string
	by    int
}

// unpaired reads what has no counterpart.
func (t *traced) unpaired() ([]unpaired, error) {
	all := make([]unpaired, len(t.latency.kinds.all))
	if t.operations.Plan == nil {
		return all, nil
	}
	t.full = 0
	for i := range all {
		totals, err := layout.ReadTotals(t.operations.Tables.Totals, uint32(i))
		if err != nil {
			return nil, err
		}
		// While they are counted, an end may be counted and its start not yet.
		all[i].starts, all[i].ends = totals.Starts-min(totals.Starts, totals.Pairs), totals.Ends
		t.full += totals.Full
	}
	open, err := t.operations.Open()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(open, func(a, b layout.Open) int { return cmp.Compare(a.Since, b.Since) })
	now := event.Now()
	for i := range open {
		o := &open[i]
		if o.Since == 0 || int(o.Kind) >= len(all) {
			continue
		}
		u := &all[o.Kind]
		if u.open++; len(u.oldest) < maxOpenShown {
			u.columns = t.columns(o.Kind)
			u.oldest = append(u.oldest, t.opened(o, now))
		}
	}
	return all, nil
}

// opened returns how an operation is shown.
func (t *traced) opened(o *layout.Open, now time.Duration) openOperation {
	plan := t.plans[o.Kind]
	shown := func(item *layout.Item, in []byte) value {
		bits, text, cut := item.In(in)
		return value{string(render.KeyText(item, bits, text, cut)), render.KeyJSON(item, bits, text)}
	}
	s := openOperation{since: now - o.Since, pid: o.PID, tid: o.TID, key: shown(&plan.Key, o.Key), details: make([]value, len(plan.Open))}
	for i := range plan.Open {
		if o.Known(i) {
			s.details[i] = shown(&plan.Open[i], o.Value)
		}
	}
	return s
}

// columns returns what describes the open operations of a kind.
func (t *traced) columns(kind uint32) columns {
	plan := t.plans[kind]
	c := columns{key: t.latency.pairs.key, by: plan.OpenBy}
	if c.key == "arg0" {
		c.key = t.run.Selector.Specs[0].First.ArgName(0)
	}
	for _, item := range plan.Open {
		c.names = append(c.names, item.Name)
	}
	return c
}
