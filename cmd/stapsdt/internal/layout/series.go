//go:build linux

package layout

import (
	"fmt"

	"github.com/cilium/ebpf"
)

// Series is the layout of the tables of a metric.
type Series struct {
	// Keys are in a key of the table, in this order, after the number of the program in KeyHeader
	// bytes.
	Keys    []Item
	KeySize int
	// Latest means that the latest value is kept. Buckets is the number of buckets, or 0.
	Latest  bool
	Buckets int
}

// The words of a row. What follows RowSum is that of the latest value, or of a histogram.
const (
	RowLatest  = RowSize      // the latest value
	RowProcess = RowSize + 8  // the process that it is of
	RowTime    = RowSize + 16 // and its time

	RowExemplar = RowSize // the latest value, its ID, its time, and these XOR each other
	RowBuckets  = RowExemplar + 4*8
)

// RowSize is the size of a row.
func (s *Series) RowSize() int {
	switch {
	case s.Latest:
		return RowTime + 8
	case s.Buckets > 0:
		return RowBuckets + 8*s.Buckets
	}
	return RowSize
}

// Layout is equal for programs that can have the same tables.
func (s *Series) Layout() string {
	layout := fmt.Sprint(s.RowSize())
	for _, k := range s.Keys {
		layout += fmt.Sprintf(" %d", k.Size)
	}
	return layout
}

// SeriesTables are the tables of a metric.
type SeriesTables struct {
	Rows     *ebpf.Map
	Overflow *ebpf.Map // one row
	Zero     *ebpf.Map // one row, which stays what it is

	// Shares divide the rows, whose owners are in Owners by the keys of the rows. Both may be nil.
	Shares *Shares
	Owners *ebpf.Map
}

// maxPlaces is the maximum number of programs without keys that have a row each, at a place of
// its own: finding it costs as much as counting without rows.
const maxPlaces = 64

// maxPerCPU is the maximum size in bytes of a table that has rows for each processor.
const maxPerCPU = 8 << 20

// NewTables creates the tables. Keys can have at most the given number of rows.
func (s *Series) NewTables(rows int) (t *SeriesTables, err error) {
	size := uint32(s.RowSize())
	spec := &ebpf.MapSpec{Name: "series", Type: ebpf.PerCPUHash, KeySize: uint32(s.KeySize), ValueSize: size, MaxEntries: uint32(rows)}
	one := ebpf.MapSpec{Name: "row", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: size, MaxEntries: 1}
	if s.Latest || rows*int(size)*ebpf.MustPossibleCPU() > maxPerCPU {
		spec.Type, one.Type = ebpf.Hash, ebpf.Array
	}
	if len(s.Keys) == 0 && !s.Latest { // whose rows are removed
		spec.Type, spec.KeySize, spec.MaxEntries = one.Type, 4, uint32(min(rows, maxPlaces))
	}
	t = &SeriesTables{}
	defer func() {
		if err != nil {
			t.Close()
		}
	}()
	if t.Rows, err = ebpf.NewMap(spec); err != nil {
		return t, err
	}
	if t.Overflow, err = ebpf.NewMap(&one); err != nil {
		return t, err
	}
	one.Type = ebpf.Array
	t.Zero, err = ebpf.NewMap(&one)
	return t, err
}

// NewSharedTables creates tables with as much room again, which the users of the machine share: one alone can have the given number
// of rows.
func (s *Series) NewSharedTables(rows int) (t *SeriesTables, err error) {
	if t, err = s.NewTables(2 * rows); err != nil || t.Places() {
		return t, err
	}
	t.Owners, err = ebpf.NewMap(&ebpf.MapSpec{Name: "owners", Type: ebpf.Hash, KeySize: uint32(s.KeySize), ValueSize: 8, MaxEntries: uint32(2 * rows)})
	if err == nil {
		t.Shares, err = NewShares(2 * rows)
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Recount counts the rows of each owner again, after some were removed.
func (t *SeriesTables) Recount() error {
	if t.Shares == nil {
		return nil
	}
	counts := map[uint64]int64{}
	var key []byte
	var owner uint64
	for entries := t.Owners.Iterate(); entries.Next(&key, &owner); {
		counts[owner]++
	}
	return t.Shares.Set(counts)
}

// Close releases the tables.
func (t *SeriesTables) Close() {
	t.Shares.Close()
	t.Owners.Close()
	t.Rows.Close()
	t.Overflow.Close()
	t.Zero.Close()
}
