//go:build linux

package layout

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// KeyHeader is the size of the number of a program, with which each key begins.
const KeyHeader = 8

// A row of a table is a number of events, and the sum of their values.
const (
	RowCount = 0
	RowSum   = 8 // Sum.Low, and then Sum.High
	RowSize  = 24
)

// Counts is the layout of a table in which events are counted.
type Counts struct {
	// Keys are in a key of the table, in this order.
	Keys []Item
	// KeySize is the size of a key, which begins with the number of the probe in KeyHeader bytes, and
	// ends with the number of the bucket in 8 bytes, or with the process and its stack.
	KeySize          int
	Bucketed, Stacks bool
}

// Keyed reports whether the table has a row for each key, and not a place for each probe.
func (c *Counts) Keyed() bool { return len(c.Keys) > 0 || c.Stacks }

// Alone reports whether no other program can have the table: that of a histogram without keys has
// a place for each bucket.
func (c *Counts) Alone() bool { return c.Bucketed && !c.Keyed() }

// Row is the number of events with the same key.
type Row struct {
	ID     uint32 // of the probe
	Key    []byte // to be read by Item.In
	Bucket int
	// Process and Stack are only of a table of stacks. A process that has no number here is 0.
	Process uint32
	Stack   StackID
	Tally
}

// Rows reads a table that has rows of the given number of probes. It may miss rows that are added
// while it reads.
func (c *Counts) Rows(table *ebpf.Map, probes int, yield func(Row)) error {
	var each []Tally
	if !c.Keyed() {
		n := uint32(probes)
		if c.Bucketed {
			n = table.MaxEntries()
		}
		for i := range n {
			if err := table.Lookup(i, &each); err != nil {
				return fmt.Errorf("read counts: %w", err)
			}
			r := Row{ID: i}
			if c.Bucketed {
				r = Row{Bucket: int(i)}
			}
			if r.add(each); r.Count > 0 {
				yield(r)
			}
		}
		return nil
	}
	var key []byte
	entries := table.Iterate()
	for entries.Next(&key, &each) {
		r := Row{ID: uint32(binary.NativeEndian.Uint64(key)), Key: bytes.Clone(key)}
		if c.Bucketed {
			r.Bucket = int(binary.NativeEndian.Uint64(key[c.KeySize-8:]))
		}
		if c.Stacks {
			end := key[c.KeySize-StackKey:]
			r.Process, r.Stack = uint32(binary.NativeEndian.Uint64(end)), StackID(binary.NativeEndian.Uint64(end[8:]))
		}
		r.add(each)
		yield(r)
	}
	if err := entries.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return fmt.Errorf("read counts: %w", err)
	}
	return nil
}

func (r *Row) add(each []Tally) {
	for _, one := range each {
		r.Merge(one)
	}
}
