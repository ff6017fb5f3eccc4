//go:build linux

package count

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
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

	shared   map[string]*ebpf.Map // by layout
	counters []*counter[S]        // by the numbers in rows
}

// counter is the program of a probe.
type counter[S Subject] struct {
	*bpf.Aggregate
	of    S
	probe string
	table *ebpf.Map
}

// Row holds the counts of a subject for the same values of --by, at all of its sites.
type Row[S Subject] struct {
	Of    S
	Text  []string          // the values of --by for people
	JSON  []json.RawMessage // the same for programs
	Count uint64
	// Value is the type of the value that is counted by bucket. Buckets has them by their
	// numbers.
	Value   expr.Type
	Buckets map[int]*layout.Tally
	Stack   *symbol.Stack

	key        string
	last       *layout.Tally // the one that bucket has returned last, and its number
	lastBucket int
}

// bucket returns one of a row, which it adds if it is not there.
func (r *Row[S]) bucket(i int) *layout.Tally {
	if r.last != nil && r.lastBucket == i {
		return r.last
	}
	b := r.Buckets[i]
	if b == nil {
		b = new(layout.Tally)
		r.Buckets[i] = b
	}
	r.last, r.lastBucket = b, i
	return b
}

// maxRows and maxBytes bound a table that has keys. A histogram's rows are larger with each
// processor, so that on a machine with many processors maxBytes is reached first.
const (
	maxRows  = 16384
	maxBytes = 64 << 20
)

// rowsOf returns the maximum number of rows of a table. In a histogram with keys, each bucket
// takes a row.
func rowsOf(a *bpf.Aggregate) uint32 {
	const rowSize = layout.RowSize
	if !a.Bucketed {
		return maxRows
	}
	return min(4*maxRows, max(maxRows/4, maxBytes/uint32(rowSize*ebpf.MustPossibleCPU())))
}

// Add gives the program of a probe a table. section is called with the table and the program's
// number in its rows.
func (t *Tables[S]) Add(a *bpf.Aggregate, of S, probe string, section func(table *ebpf.Map, id uint32) (*bpf.Section, error)) (*bpf.Section, error) {
	c := &counter[S]{Aggregate: a, of: of, probe: probe}
	if !a.Alone() {
		c.table = t.shared[a.Layout()]
	}
	if c.table == nil {
		table, err := a.NewTable(rowsOf(a))
		if err != nil {
			return nil, bpf.MapError(err)
		}
		if c.table = table; !a.Alone() {
			if t.shared == nil {
				t.shared = map[string]*ebpf.Map{}
			}
			t.shared[a.Layout()] = table
		}
	}
	made, err := section(c.table, uint32(len(t.counters)))
	if err != nil {
		if a.Alone() {
			c.table.Close()
		}
		return nil, err
	}
	t.counters = append(t.counters, c)
	return made, nil
}

// Rows reads the tables. The most frequent rows come first.
func (t *Tables[S]) Rows() ([]*Row[S], error) {
	merged := map[string]*Row[S]{}
	seen := map[*ebpf.Map]bool{}
	for i, c := range t.counters {
		if seen[c.table] {
			continue
		}
		seen[c.table] = true
		err := c.Rows(c.table, len(t.counters), func(r layout.Row) {
			of := c
			if !c.Alone() {
				of = t.counters[r.ID]
			}
			t.merge(merged, of, r)
		})
		if err != nil {
			return nil, fmt.Errorf("table %d: %w", i, err)
		}
	}
	all := make([]*Row[S], 0, len(merged))
	for _, r := range merged {
		all = append(all, r)
	}
	slices.SortFunc(all, compareRows)
	return all, nil
}

// compareRows orders rows: the most frequent first.
func compareRows[S Subject](a, b *Row[S]) int {
	return cmp.Or(-cmp.Compare(a.Count, b.Count), cmp.Compare(a.Of.String(), b.Of.String()), slices.Compare(a.Text, b.Text), cmp.Compare(a.key, b.key))
}

// merge adds a row of a table to that of the same subject and values.
func (t *Tables[S]) merge(merged map[string]*Row[S], c *counter[S], r layout.Row) {
	n := &Row[S]{Of: c.of, Value: c.Value, Buckets: map[int]*layout.Tally{}, key: c.of.String()}
	for i := range c.Keys {
		bits, text, cut := c.Keys[i].In(r.Key)
		n.Text = append(n.Text, string(render.KeyText(&c.Keys[i], bits, text, cut)))
		n.JSON = append(n.JSON, render.KeyJSON(&c.Keys[i], bits, text))
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
	n.bucket(int(r.Bucket)).Merge(r.Tally)
}

// Close releases the tables.
func (t *Tables[S]) Close() {
	for _, c := range t.counters {
		if c.Alone() {
			c.table.Close()
		}
	}
	for _, table := range t.shared {
		table.Close()
	}
}
