//go:build linux

package count

import (
	"encoding/binary"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/record"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/recorded"
	"github.com/go-stapsdt/stapsdt/internal/expr"
)

// Recorded are the rows of events that are counted here, and not in tables of the kernel.
type Recorded[S Subject] struct {
	// Lost is the number of events for which there was no room.
	Lost uint64

	subjects []S
	rows     map[string]*Row[S] // by the subject's number and the values of --by
	key      []byte
}

// Number returns the number of a subject.
func (t *Recorded[S]) Number(of S) int {
	i := slices.Index(t.subjects, of)
	if i < 0 {
		i = len(t.subjects)
		t.subjects = append(t.subjects, of)
	}
	return i
}

// Add counts an event of a subject. With buckets, it is counted in that of its value.
func (t *Recorded[S]) Add(number int, by []recorded.Value, buckets record.Buckets, of expr.Type, value uint64) {
	t.key = binary.NativeEndian.AppendUint64(t.key[:0], uint64(number))
	for i := range by {
		t.key = binary.NativeEndian.AppendUint64(t.key, by[i].Bits)
		t.key = binary.NativeEndian.AppendUint64(t.key, uint64(len(by[i].Text)))
		t.key = append(t.key, by[i].Text...)
	}
	row := t.rows[string(t.key)]
	if row == nil {
		if len(t.rows) == maxRows {
			t.Lost++
			return
		}
		row = t.add(number, by)
		row.Value = of
	}
	bucket := 0
	if buckets != nil {
		bucket = buckets.Of(of, value)
	}
	row.Count++
	b := row.Buckets[bucket]
	row.Buckets[bucket] = Bucket{b.Count + 1, b.Sum + value}
}

func (t *Recorded[S]) add(number int, by []recorded.Value) *Row[S] {
	row := &Row[S]{Of: t.subjects[number], Buckets: map[int]Bucket{}, key: string(t.key)}
	for i := range by {
		row.Text, row.JSON = append(row.Text, by[i].ForText()), append(row.JSON, by[i].ForJSON())
	}
	if t.rows == nil {
		t.rows = map[string]*Row[S]{}
	}
	t.rows[row.key] = row
	return row
}

// Rows returns the numbers. The most frequent rows come first.
func (t *Recorded[S]) Rows() ([]*Row[S], error) {
	all := make([]*Row[S], 0, len(t.rows))
	for _, r := range t.rows {
		all = append(all, r)
	}
	slices.SortFunc(all, compareRows)
	return all, nil
}
