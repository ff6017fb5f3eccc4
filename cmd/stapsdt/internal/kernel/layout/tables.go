//go:build linux

package layout

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Tables holds the tables of programs that count.
type Tables struct {
	layout *Rows
	Rows   *ebpf.Map
	// Spare has a row for events without room, if Overflow is set, and a row that stays 0. It is
	// nil if neither is needed.
	Spare    *ebpf.Map
	Overflow bool
	// Shares divides the rows. Owners maps the keys of the rows to their owners. Both may be nil.
	Shares *Shares
	Owners *ebpf.Map
}

// The elements of Spare.
const (
	SpareOverflow = iota
	SpareZero
	spareSize
)

// Limits bounds the size of tables.
type Limits struct {
	// Rows is the maximum number of rows of programs with keys, and Places the maximum number of
	// programs without keys.
	Rows, Places int
	// Bytes is the maximum size of a table with rows for each processor. In a larger one,
	// processors share the rows. 0 means no maximum.
	Bytes int
	// Shared doubles the room, and divides it among the users of the machine, so that one alone can
	// have Rows. Events without room are counted in a row of their own.
	Shared bool
}

// NewTables creates tables. The layout must not change afterwards.
func (l *Rows) NewTables(limits Limits) (t *Tables, err error) {
	rows, size := limits.Rows, l.Size()
	if limits.Shared {
		rows *= 2
	}
	spec := &ebpf.MapSpec{
		Name: "rows", Type: ebpf.PerCPUHash, KeySize: uint32(l.KeySize), ValueSize: uint32(size),
		MaxEntries: uint32(rows),
	}
	spare := &ebpf.MapSpec{
		Name: "spare", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: uint32(size),
		MaxEntries: spareSize,
	}
	if l.Latest || limits.Bytes > 0 && rows*size*ebpf.MustPossibleCPU() > limits.Bytes {
		spec.Type, spare.Type = ebpf.Hash, ebpf.Array
	}
	if l.Places() {
		spec.Type, spec.KeySize, spec.MaxEntries = spare.Type, 4, uint32(limits.Places)
	}
	if l.Alone() {
		spec.MaxEntries = uint32(l.KeyBuckets)
	}
	t = &Tables{layout: l, Overflow: limits.Shared}
	defer func() {
		if err != nil {
			t.Close()
		}
	}()
	if t.Rows, err = ebpf.NewMap(spec); err != nil || l.Places() && !t.Overflow {
		return t, err
	}
	if t.Spare, err = ebpf.NewMap(spare); err != nil || l.Places() || !limits.Shared {
		return t, err
	}
	t.Owners, err = ebpf.NewMap(
		&ebpf.MapSpec{
			Name: "owners", Type: ebpf.Hash, KeySize: spec.KeySize, ValueSize: 8,
			MaxEntries: spec.MaxEntries,
		},
	)
	if err == nil {
		t.Shares, err = NewShares(rows)
	}
	return t, err
}

// Close releases the tables.
func (t *Tables) Close() {
	t.Shares.Close()
	t.Owners.Close()
	t.Rows.Close()
	t.Spare.Close()
}

// Read calls yield with each row that has events. The row is valid until yield returns. Read may
// miss rows that are added while it reads. A row's number of events and its sum can be of different
// moments.
func (t *Tables) Read(yield func(*Row)) error {
	var r Row
	err := each(t.Rows, func(key, parts []byte) {
		if r.set(t.layout, key, parts); r.Count > 0 { // otherwise the place is free
			yield(&r)
		}
	})
	if err == nil && t.Overflow {
		var parts []byte
		parts, err = t.Spare.LookupBytes(uint32(SpareOverflow))
		r.reset()
		r.Overflow = true
		if r.add(t.layout, parts); r.Count > 0 {
			yield(&r)
		}
	}
	if err != nil {
		return fmt.Errorf("read counts: %w", err)
	}
	return nil
}

// All returns the rows that Read reads. It uses the memory of the rows in buffer, which may be nil.
func (t *Tables) All(buffer []Row) (all []Row, err error) {
	all = buffer[:0]
	err = t.Read(func(r *Row) {
		if len(all) == cap(all) {
			all = append(all, Row{})[:len(all)]
		}
		all = all[:len(all)+1]
		all[len(all)-1].copy(r)
	})
	return all, err
}

// Removable reports whether rows can be removed. Rows at fixed places cannot.
func (t *Tables) Removable() bool { return !t.layout.Places() }

// Remove removes the row of a key. The next event creates it again.
func (t *Tables) Remove(key []byte) error {
	t.removeOwner(key)
	err := t.Rows.Delete(key)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	return err
}

// removeOwner removes the owner of a row.
func (t *Tables) removeOwner(key []byte) {
	if t.Owners != nil {
		_ = t.Owners.Delete(key)
	}
}

// Take removes the row of a key and returns its last state, which keeps the key. Before Linux 5.14,
// events between the two are lost; later, only an event that is being counted at that moment is.
func (t *Tables) Take(key []byte) (*Row, error) {
	var whole []byte
	var parts [][]byte // of all processors
	var last any = &whole
	if t.Rows.Type() == ebpf.PerCPUHash {
		last = &parts
	}
	t.removeOwner(key)
	err := t.Rows.LookupAndDelete(key, last)
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) {
		if err = t.Rows.Lookup(key, last); err == nil {
			err = t.Remove(key)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("remove a series: %w", err)
	}
	taken := &Row{}
	taken.set(t.layout, key, slices.Concat(append(parts, whole)...))
	return taken, nil
}

// Recount recounts the rows of each owner after some rows were removed.
func (t *Tables) Recount() error {
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
