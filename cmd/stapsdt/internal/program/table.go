//go:build linux

package program

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/cilium/ebpf"
)

// Row is what was counted with a key.
type Row struct {
	ID     uint32 // of the probe
	Key    []byte // to be read by Item.In
	Bucket int
	// Process and Stack are only of a table of stacks. A process that has no number here is 0.
	Process uint32
	Stack   StackID
	// Count is the number of events, and Sum that of their values, modulo 2^64.
	Count, Sum uint64
}

// Rows reads a table of so many probes. While it is being counted in, rows may be missing.
func (a *Aggregate) Rows(table *ebpf.Map, probes int, yield func(Row)) error {
	var each []row
	if !a.keyed() {
		n := uint32(probes)
		if a.buckets != nil {
			n = table.MaxEntries()
		}
		for i := range n {
			if err := table.Lookup(i, &each); err != nil {
				return fmt.Errorf("read counts: %w", err)
			}
			r := Row{ID: i}
			if a.buckets != nil {
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
		if a.buckets != nil {
			r.Bucket = int(binary.NativeEndian.Uint64(key[a.KeySize-8:]))
		}
		if a.stacks != nil {
			end := key[a.KeySize-stackKey:]
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

// row is a value of a table.
type row struct{ Count, Sum uint64 }

func (r *Row) add(each []row) {
	for _, one := range each {
		r.Count += one.Count
		r.Sum += one.Sum
	}
}

// In returns the value that a key, or another part of a table, has of an item: its bits or
// its text, and whether the text is longer than that.
func (i *Item) In(key []byte) (bits uint64, text []byte, cut bool) {
	raw := key[i.Offset:][:i.Size]
	if i.Type.Kind != expr.String {
		return binary.NativeEndian.Uint64(raw), nil, false
	}
	if end := bytes.IndexByte(raw, 0); end >= 0 {
		raw = raw[:end]
	}
	// A string of just this length looks like one that was cut.
	if len(raw) == TextSize {
		return 0, WholeRunes(raw), true
	}
	return 0, raw, false
}

// WholeRunes returns text, which was cut somewhere, without the bytes of an incomplete rune at
// its end.
func WholeRunes(text []byte) []byte {
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax+1); i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return text[:i]
			}
			break
		}
	}
	return text
}
