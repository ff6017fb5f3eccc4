//go:build linux

package count

import (
	"errors"
	"fmt"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/symbol"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/stacks"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"

	"github.com/cilium/ebpf"
)

// Tables are the tables in the kernel in which the programs of a command count.
type Tables[S Subject] struct {
	// Stacks finds the functions of stacks, if these are counted.
	Stacks *stacks.Stacks
	// Detached returns the detachment of a subject, or nil.
	Detached func(of S) *query.Detachment

	tables map[string]*layout.Tables // keyed by layout
	// counters are indexed by the IDs in rows. An ID that has no program has nil.
	counters []*counter[S]
	stacks   map[*Row[S]]*symbol.Stack // of the last rows
}

// counter is the program of a probe.
type counter[S Subject] struct {
	*bpf.Aggregate
	of    S
	probe string
	rows  *layout.Tables
}

// maxRows and maxBytes bound a table with keys. A histogram's rows grow with the number of
// processors, so a machine with many processors reaches maxBytes first. maxPlaces is the maximum
// number of probes without keys.
const (
	maxBytes  = 64 << 20
	maxPlaces = 4096
	// maxNested is the maximum number of buckets of nested calls, which all processors share.
	maxNested = 16 * maxRows
)

// limitsOf returns the bounds of a table. In a histogram with keys, each bucket takes a row.
func limitsOf(a *bpf.Aggregate) layout.Limits {
	l := layout.Limits{Rows: maxRows, Places: maxPlaces}
	if a.Nested {
		return layout.Limits{Rows: maxNested, Bytes: 1}
	}
	if a.KeyBuckets > 0 {
		l.Rows = min(4*maxRows, max(maxRows/4, maxBytes/(a.Size()*ebpf.MustPossibleCPU())))
	}
	return l
}

// Add assigns a table to the program of a probe. section is called with the table and the program's
// ID in its rows. Other programs have other IDs.
func (t *Tables[S]) Add(
	a *bpf.Aggregate,
	of S,
	probe string,
	section func(rows *layout.Tables, id uint32) (*bpf.Section, error),
) (*bpf.Section, error) {
	return t.Put(len(t.counters), a, of, probe, section)
}

// Put is Add with an ID. Programs can share an ID if they have the same subject and keys.
func (t *Tables[S]) Put(
	id int,
	a *bpf.Aggregate,
	of S,
	probe string,
	section func(rows *layout.Tables, id uint32) (*bpf.Section, error),
) (*bpf.Section, error) {
	if a.Places() && !a.Alone() && id >= maxPlaces {
		return nil, fmt.Errorf("too many different probes: the kernel counts at most %d at a time: give a narrower SPEC, or --via socket if the program listens", maxPlaces)
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
		for len(t.counters) <= id {
			t.counters = append(t.counters, nil)
		}
		t.counters[id] = &counter[S]{a, of, probe, rows}
	}
	return made, err
}

// Rows reads the tables. The most frequent rows come first.
func (t *Tables[S]) Rows() ([]*Row[S], error) {
	merged := map[string]*Row[S]{}
	t.stacks = map[*Row[S]]*symbol.Stack{}
	seen := map[*layout.Tables]bool{}
	for _, c := range t.counters {
		if c == nil || seen[c.rows] {
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

// merge adds a row of a table to the row of the same subject and values.
func (t *Tables[S]) merge(merged map[string]*Row[S], c *counter[S], r *layout.Row) {
	n := &Row[S]{Of: c.of, Value: c.Value, Buckets: query.Tallies{}, key: c.of.String()}
	n.Detached = t.Detached(c.of)
	for i := range c.Keys {
		v := evaluate.ValueIn(&c.Keys[i], r.Key)
		n.Text, n.JSON = append(n.Text, v.ForText()), append(n.JSON, v.ForJSON())
		n.key += "\x00" + n.Text[i]
	}
	var stack *symbol.Stack
	if t.Stacks != nil {
		stack = t.Stacks.Of(r.Process, c.probe, r.Stack)
		n.key += "\x00" + stack.Key()
	}
	if known := merged[n.key]; known != nil {
		n = known
	} else {
		merged[n.key] = n
		if stack != nil {
			t.stacks[n] = stack
		}
	}
	n.Count += r.Count
	n.Own, n.Whole = n.Own+r.Own, n.Whole+r.Whole
	n.Buckets.Of(r.Bucket).Merge(r.Tally)
}

// Clear removes all rows, which must not have fixed places.
func (t *Tables[S]) Clear() (err error) {
	for _, rows := range t.tables {
		err = errors.Join(err, layout.Clear(rows.Rows))
	}
	return err
}

// Stack returns the stack of one of the last rows.
func (t *Tables[S]) Stack(of *Row[S]) *symbol.Stack { return t.stacks[of] }

// Close releases the tables.
func (t *Tables[S]) Close() {
	for _, rows := range t.tables {
		rows.Close()
	}
}
