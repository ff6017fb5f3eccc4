//go:build linux

package count

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/symbol"
	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/cilium/ebpf"
)

// Subject is the thing whose events are counted: a probe, or an operation.
type Subject interface {
	comparable
	String() string
}

// Tables are the tables in the kernel in which the programs of a command count.
type Tables[S Subject] struct {
	// Stacks finds the functions of stacks, if these are counted.
	Stacks *Stacks

	tables   map[string]*layout.Tables // keyed by layout
	counters []*counter[S]             // indexed by the IDs in rows
}

// counter is the program of a probe.
type counter[S Subject] struct {
	*bpf.Aggregate
	of    S
	probe string
	rows  *layout.Tables
}

// Row holds the counts of a subject for the same values of --by, at all of its sites.
type Row[S Subject] struct {
	Of    S
	Text  []string          // the values of --by for people
	JSON  []json.RawMessage // the values of --by for programs
	Count uint64
	// Value is the type of the value that is counted by bucket. Buckets maps the indexes of buckets to their counts.
	Value   expr.Type
	Buckets layout.Tallies
	Stack   *symbol.Stack

	key   string
	index int // the index among the rows of a Table
}

// maxRows and maxBytes bound a table with keys. A histogram's rows grow with the number of processors, so a machine with
// many processors reaches maxBytes first. maxPlaces is the maximum number of probes without keys.
const (
	maxRows   = 16384
	maxBytes  = 64 << 20
	maxPlaces = 4096
)

// limitsOf returns the bounds of a table. In a histogram with keys, each bucket takes a row.
func limitsOf(a *bpf.Aggregate) layout.Limits {
	l := layout.Limits{Rows: maxRows, Places: maxPlaces}
	if a.KeyBuckets > 0 {
		l.Rows = min(4*maxRows, max(maxRows/4, maxBytes/(a.Size()*ebpf.MustPossibleCPU())))
	}
	return l
}

// Add assigns a table to the program of a probe. section is called with the table and the program's ID in its rows.
func (t *Tables[S]) Add(a *bpf.Aggregate, of S, probe string, section func(rows *layout.Tables, id uint32) (*bpf.Section, error)) (*bpf.Section, error) {
	id := len(t.counters)
	if a.Places() && !a.Alone() && id >= maxPlaces {
		return nil, fmt.Errorf("too many different probes: at most %d are counted at a time", maxPlaces)
	}
	key := a.String()
	if a.Alone() {
		key += fmt.Sprint(" for ", id)
	}
	rows := t.tables[key]
	if rows == nil {
		var err error
		if rows, err = a.NewTables(limitsOf(a)); err != nil {
			return nil, bpf.MapError(err)
		}
		if t.tables == nil {
			t.tables = map[string]*layout.Tables{}
		}
		t.tables[key] = rows
	}
	made, err := section(rows, uint32(id))
	if err == nil {
		t.counters = append(t.counters, &counter[S]{a, of, probe, rows})
	}
	return made, err
}

// Rows reads the tables. The most frequent rows come first.
func (t *Tables[S]) Rows() ([]*Row[S], error) {
	merged := map[string]*Row[S]{}
	seen := map[*layout.Tables]bool{}
	for _, c := range t.counters {
		if seen[c.rows] {
			continue
		}
		seen[c.rows] = true
		err := c.rows.Read(func(r *layout.Row) {
			of := c
			if !c.Alone() {
				of = t.counters[r.ID]
			}
			t.merge(merged, of, r)
		})
		if err != nil {
			return nil, err
		}
	}
	return ordered(merged), nil
}

// ordered returns the rows, the most frequent first.
func ordered[S Subject](rows map[string]*Row[S]) []*Row[S] {
	return slices.SortedFunc(maps.Values(rows), func(a, b *Row[S]) int {
		return cmp.Or(-cmp.Compare(a.Count, b.Count), cmp.Compare(a.Of.String(), b.Of.String()), slices.Compare(a.Text, b.Text), cmp.Compare(a.key, b.key))
	})
}

// merge adds a row of a table to the row of the same subject and values.
func (t *Tables[S]) merge(merged map[string]*Row[S], c *counter[S], r *layout.Row) {
	n := &Row[S]{Of: c.of, Value: c.Value, Buckets: layout.Tallies{}, key: c.of.String()}
	for i := range c.Keys {
		v := replay.ValueIn(&c.Keys[i], r.Key)
		n.Text, n.JSON = append(n.Text, v.ForText()), append(n.JSON, v.ForJSON())
		n.key += "\x00" + n.Text[i]
	}
	if t.Stacks != nil {
		n.Stack = t.Stacks.find(c.probe, r)
		n.key += "\x00" + n.Stack.Key()
	}
	if known := merged[n.key]; known != nil {
		n = known
	} else {
		merged[n.key] = n
	}
	n.Count += r.Count
	n.Buckets.Of(r.Bucket).Merge(r.Tally)
}

// Close releases the tables.
func (t *Tables[S]) Close() {
	for _, rows := range t.tables {
		rows.Close()
	}
}

// Table counts events in this process, not in tables of the kernel.
type Table[S Subject] struct {
	// Lost counts the events for which there was no room.
	Lost uint64

	subjects []S
	rows     map[string]*Row[S] // keyed by the subject's index and the values of --by
	key      []byte
	recent   [1024]recentRow[S]
	tallies  [1024]recentTally[S]
}

// recentRow is the last row with a hash, among rows with no value of --by or with one number as the only value. Most events are found there.
type recentRow[S Subject] struct {
	number int
	bits   uint64
	row    *Row[S]
}

// recentTally is the tally that was used last for a hash.
type recentTally[S Subject] struct {
	*layout.Tally
	row    *Row[S]
	bucket int
}

// Number returns the index of a subject.
func (t *Table[S]) Number(of S) int {
	i := slices.Index(t.subjects, of)
	if i < 0 {
		i = len(t.subjects)
		t.subjects = append(t.subjects, of)
	}
	return i
}

// Add counts an event of a subject. With buckets, it counts the event in the bucket of its value.
func (t *Table[S]) Add(number int, by []replay.Value, buckets layout.Buckets, of expr.Type, value uint64) {
	row := t.find(number, by)
	if row == nil {
		t.Lost++
		return
	}
	row.Value = of
	bucket := 0
	if buckets != nil {
		bucket = buckets.Of(of, value)
	}
	row.Count++
	recent := &t.tallies[uint(64*row.index+bucket)%uint(len(t.tallies))]
	if recent.row != row || recent.bucket != bucket {
		*recent = recentTally[S]{row.Buckets.Of(bucket), row, bucket}
	}
	recent.Add(of, value)
}

// find returns the row of an event, or nil if there is no room for it.
func (t *Table[S]) find(number int, by []replay.Value) *Row[S] {
	if len(by) > 1 || len(by) == 1 && by[0].Text != "" {
		return t.findAny(number, by)
	}
	bits := uint64(0)
	if len(by) == 1 {
		bits = by[0].Bits
	}
	r := &t.recent[(bits+uint64(number))*0x9e3779b97f4a7c15>>54]
	if r.row == nil || r.number != number || r.bits != bits {
		row := t.findAny(number, by)
		if row == nil {
			return nil
		}
		*r = recentRow[S]{number, bits, row}
	}
	return r.row
}

// findAny is find for any values.
func (t *Table[S]) findAny(number int, by []replay.Value) *Row[S] {
	t.key = binary.NativeEndian.AppendUint64(t.key[:0], uint64(number))
	for i := range by {
		t.key = binary.NativeEndian.AppendUint64(t.key, by[i].Bits)
		t.key = binary.NativeEndian.AppendUint64(t.key, uint64(len(by[i].Text)))
		t.key = append(t.key, by[i].Text...)
	}
	row := t.rows[string(t.key)]
	if row == nil {
		if len(t.rows) == maxRows {
			return nil
		}
		row = t.add(number, by)
	}
	return row
}

func (t *Table[S]) add(number int, by []replay.Value) *Row[S] {
	row := &Row[S]{Of: t.subjects[number], Buckets: layout.Tallies{}, key: string(t.key), index: len(t.rows)}
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
