package top

import (
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/tree"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

const (
	// slots is the number of screens in which an operation that has ended is counted.
	slots = 10
	// slotOfRecording is the time of a slot of a recording: the last second is shown.
	slotOfRecording = time.Second / slots
	// maxRows is the maximum number of rows. Operations that have no row are counted together.
	maxRows = 4096
)

// table counts the operations by kind and by the values of --by.
type table struct {
	operations pairing.Operations
	parts      *tree.Parts // nil if no keys ask for them
	rows       map[string]*row
	others     uint64 // operations that have ended without a row
	full       bool   // no row has been idle since the slot began
	slot       int    // the present one
	began      [slots]time.Duration
	key        []byte
}

// row is a line of the table.
type row struct {
	kind   *pairing.Kind
	values []evaluate.Value // values of --by; an unknown value has no item
	slots  [slots]slot
	count  uint64 // number of all operations that have ended
	open   int
	oldest time.Duration // how long the oldest operation has been open
}

// slot counts the operations that have ended in a part of the time.
type slot struct {
	count, errors uint64
	took          query.Tallies // durations by the buckets of query.Powers
}

func newTable(operations pairing.Operations) *table {
	return &table{operations: operations, rows: map[string]*row{}}
}

// add adds an event.
func (t *table) add(e *recording.Event, f *replay.File) {
	o := t.operations.Add(e, f)
	if t.parts != nil {
		t.parts.Add(&o, e)
	}
	if !o.HasEnded || f.InPast() {
		return
	}
	r := t.row(o.Ended.Start.Kind, o.Ended.By)
	if r == nil {
		t.others++
		return
	}
	r.count++
	s := &r.slots[t.slot]
	s.count++
	if pairing.Failed(e) {
		s.errors++
	}
	if s.took == nil {
		s.took = query.Tallies{}
	}
	took := uint64(o.Ended.Took)
	s.took.Of(query.Powers{}.Of(query.Elapsed, took)).Add(query.Elapsed, took)
}

// gone removes the operations of a process that has ended.
func (t *table) gone(f *replay.File) {
	t.operations.Gone(f)
	if t.parts != nil {
		t.parts.Gone(f)
	}
}

// row returns the row of a kind of operation and its values of --by, or nil if there is no room.
func (t *table) row(kind *pairing.Kind, values []evaluate.Value) *row {
	t.key = append(t.key[:0], kind.Name...)
	for i := range values {
		t.key = values[i].AppendKey(append(t.key, 0))
	}
	if r := t.rows[string(t.key)]; r != nil {
		return r
	}
	if len(t.rows) >= maxRows && (t.full || !t.drop()) {
		return nil
	}
	r := &row{kind: kind, values: append([]evaluate.Value(nil), values...)}
	t.rows[string(t.key)] = r
	return r
}

// drop drops the rows of idle operations, and reports whether there were any.
func (t *table) drop() (found bool) {
	isBusy := func(s slot) bool { return s.count > 0 }
	for key, r := range t.rows {
		if r.open == 0 && !slices.ContainsFunc(r.slots[:], isBusy) {
			t.others += r.count
			delete(t.rows, key)
			found = true
		}
	}
	t.full = !found
	return found
}

// turn begins a new slot at the time now.
func (t *table) turn(now time.Duration) {
	t.slot, t.full = (t.slot+1)%slots, false
	t.began[t.slot] = now
	for _, r := range t.rows {
		r.slots[t.slot] = slot{}
	}
}

// turnTo begins the slots of a recording until the time now.
func (t *table) turnTo(now time.Duration) {
	began := max(t.began[t.slot], now-(slots+1)*slotOfRecording) // older ones are forgotten
	for at := began + slotOfRecording; at <= now; at += slotOfRecording {
		t.turn(at)
	}
}

// window returns the time that the slots cover.
func (t *table) window(now time.Duration) time.Duration {
	first := now
	for _, began := range t.began {
		if began > 0 {
			first = min(first, began)
		}
	}
	return max(now-first, 0)
}

// recent returns the sum of the slots, and their histogram.
func (r *row) recent() (sum slot, h *render.Histogram) {
	sum.took = query.Tallies{}
	for i := range r.slots {
		s := &r.slots[i]
		sum.count += s.count
		sum.errors += s.errors
		for at, b := range s.took {
			sum.took.Of(at).Merge(*b)
		}
	}
	return sum, render.NewHistogram(query.Elapsed, query.Powers{}, sum.took)
}
