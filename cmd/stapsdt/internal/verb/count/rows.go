package count

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/internal/expr"
)

// Subject is the thing whose events are counted: a probe, or an operation.
type Subject interface {
	comparable
	String() string
}

// Row holds the counts of a subject for the same values of --by, at all of its sites.
type Row[S Subject] struct {
	Of    S
	Text  []string          // the values of --by for people
	JSON  []json.RawMessage // the values of --by for programs
	Count uint64
	// Value is the type of the value that is counted by bucket. Buckets maps the indexes of
	// buckets to their counts.
	Value   expr.Type
	Buckets query.Tallies
	// Own is the time of nested calls without the calls inside them, and Whole without those of the
	// same function inside them, in nanoseconds.
	Own, Whole uint64
	// Detached is set if later events are not counted.
	Detached *query.Detachment

	key   string
	index int // the index among the rows of a Table
}

// maxRows is the maximum number of rows.
const maxRows = 16384

// ordered returns the rows, the most frequent first.
func ordered[S Subject](rows map[string]*Row[S]) []*Row[S] {
	return slices.SortedFunc(maps.Values(rows), func(a, b *Row[S]) int {
		return cmp.Or(
			-cmp.Compare(a.Count, b.Count), cmp.Compare(a.Of.String(), b.Of.String()),
			slices.Compare(a.Text, b.Text), cmp.Compare(a.key, b.key),
		)
	})
}

// Table counts events in this process, not in tables of the kernel.
type Table[S Subject] struct {
	// Lost counts the events for which there was no room.
	Lost uint64

	subjects []S
	numbers  map[S]int          // their indexes
	rows     map[string]*Row[S] // keyed by the subject's index and the values of --by
	key      []byte
	recent   [1024]recentRow[S]
	tallies  [1024]recentTally[S]
}

// recentRow is the last row with a hash, among rows with no value of --by or with one number as
// the only value. Most events are found there.
type recentRow[S Subject] struct {
	number int
	bits   uint64
	look   uint16
	row    *Row[S]
}

// recentTally is the tally that was used last for a hash.
type recentTally[S Subject] struct {
	*query.Tally
	row    *Row[S]
	bucket int
}

// Number returns the index of a subject.
func (t *Table[S]) Number(of S) int {
	i, known := t.numbers[of]
	if !known {
		if t.numbers == nil {
			t.numbers = map[S]int{}
		}
		i = len(t.subjects)
		t.subjects, t.numbers[of] = append(t.subjects, of), i
	}
	return i
}

// Add counts an event of a subject. With buckets, it counts the event in the bucket of its value.
func (t *Table[S]) Add(
	number int, by []evaluate.Value, buckets query.Buckets, of expr.Type, value uint64,
) {
	if row := t.Row(number, by); row != nil {
		row.Count++
		t.tally(row, buckets, of, value)
	}
}

// tally adds the value of an event to a row.
func (t *Table[S]) tally(row *Row[S], buckets query.Buckets, of expr.Type, value uint64) {
	bucket := 0
	switch b := buckets.(type) {
	case nil:
	case query.Powers: // called directly, as these are the buckets of most histograms
		bucket = b.Of(of, value)
	default:
		bucket = b.Of(of, value)
	}
	recent := &t.tallies[uint(64*row.index+bucket)%uint(len(t.tallies))]
	if recent.row != row || recent.bucket != bucket {
		*recent = recentTally[S]{row.Buckets.Of(bucket), row, bucket}
		row.Value = of
	}
	recent.Add(of, value)
}

// Row returns the row of an event, or nil if there is no room for it: then the event is lost.
func (t *Table[S]) Row(number int, by []evaluate.Value) *Row[S] {
	if len(by) > 1 || len(by) == 1 && by[0].Text != "" {
		return t.find(number, by)
	}
	bits, look := uint64(0), uint16(0)
	if len(by) == 1 {
		bits, look = by[0].Bits, by[0].Look()
	}
	r := &t.recent[(bits+uint64(number))*0x9e3779b97f4a7c15>>54]
	if r.row == nil || r.number != number || r.bits != bits || r.look != look {
		row := t.find(number, by)
		if row == nil {
			return nil
		}
		*r = recentRow[S]{number, bits, look, row}
	}
	return r.row
}

// find is Row for any values.
func (t *Table[S]) find(number int, by []evaluate.Value) *Row[S] {
	t.key = binary.NativeEndian.AppendUint64(t.key[:0], uint64(number))
	for i := range by {
		t.key = by[i].AppendKey(t.key)
	}
	row := t.rows[string(t.key)]
	if row == nil {
		if len(t.rows) == maxRows {
			t.Lost++
			return nil
		}
		row = t.add(number, by)
	}
	return row
}

func (t *Table[S]) add(number int, by []evaluate.Value) *Row[S] {
	row := &Row[S]{
		Of: t.subjects[number], Buckets: query.Tallies{}, key: string(t.key), index: len(t.rows),
	}
	for i := range by {
		row.Text, row.JSON = append(row.Text, by[i].ForText()), append(row.JSON, by[i].ForJSON())
	}
	if t.rows == nil {
		t.rows = map[string]*Row[S]{}
	}
	t.rows[row.key] = row
	return row
}

// Rows returns the counts. The most frequent rows come first.
func (t *Table[S]) Rows() ([]*Row[S], error) { return ordered(t.rows), nil }
