//go:build linux

package bpf

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"

	"github.com/cilium/ebpf"
)

// Latency generates a pair of programs. The start program stores the start time in a map of open
// operations. The end program removes it and records the elapsed time.
type Latency struct {
	// Key are items of the key of the map of open operations. Open are the items of its values: the
	// expressions of By that are evaluated at the start. With Details, the first OpenBy items are
	// the expressions of By that the start has, and the others are the start's arguments.
	Key    []value.Item
	Open   []value.Item
	OpenBy int

	pairing    query.Pairing
	keySize    int
	startWhere []string
	endWhere   []string
	// the indexes in Open of the expressions of By that are evaluated at the start
	atStart   map[string]int
	valueSize int
	seen      *ebpf.Map // the table of NewSeen, or nil
	// kept means that Open has the lengths of strings, for Started. stacks is the table of the
	// stacks of the starts, or nil. A stack is the end of an operation's value.
	kept   bool
	stacks *layout.StackTable
	// nestedAt is the offset of the words of nested calls.
	nestedAt int
}

// NewLatency decides which expressions are evaluated at the start and which at the end, from one
// probe of each. Other starts and ends must have equal keys.
func NewLatency(start, end *Probe, pairing query.Pairing) (*Latency, error) {
	end = end.withTime()
	l := &Latency{pairing: pairing, atStart: map[string]int{}, valueSize: layout.OpenHeader}
	key, size, err := keyItems(pairing.Key, start.pairItem)
	if err != nil {
		return nil, err
	}
	l.Key, l.keySize = itemsOf(key), size
	if l.startWhere, l.endWhere, err = divide(&pairing, start, end, pairing.Where); err != nil {
		return nil, err
	}
	atStart, _, err := divide(&pairing, start, end, pairing.By)
	if err != nil {
		return nil, err
	}
	for _, src := range atStart {
		item, err := start.keyItem(src, l.valueSize)
		if err != nil {
			return nil, err
		}
		l.atStart[src] = len(l.Open)
		l.Open = append(l.Open, item.Item)
		l.valueSize += item.Size
	}
	if l.pairing.Nested {
		l.nestedAt, l.valueSize = l.valueSize, l.valueSize+nestedSize
	}
	if l.keySize+l.valueSize > stackSize { // a map would not take such a key either
		return nil, errStack
	}
	asked := l.valueSize
	if l.pairing.Kinds {
		for l.valueSize < kindsRoom && l.startStack()+8 <= stackSize {
			l.valueSize += 8
		}
	}
	l.details(start, asked, stackSize)
	return l, nil
}

// kindsRoom is the size of an open operation if there may be several kinds, because their details
// need room.
const kindsRoom = 256

// Of returns the plan for operations that another probe starts. Only its details differ, so it can
// use the same tables.
func (l *Latency) Of(start *Probe) *Latency {
	other := *l
	other.Open = nil
	asked := layout.OpenHeader
	for _, item := range l.Open {
		if !l.isDetail(item.Name) {
			other.Open = append(other.Open, item)
			asked += item.Size
		}
	}
	other.details(start, asked, l.valueSize)
	return &other
}

// OperationTables holds the map of open operations and the array of query.Totals. Shares may be
// nil.
type OperationTables struct {
	Open, Totals *ebpf.Map
	Shares       *layout.Shares

	stopped *ebpf.Map // one word, which is 1 after Stop
	inner   *ebpf.Map // the time inside calls, or nil
}

// Stop ends the pairing of starts and ends at the same time. Without it, a program would still
// count starts whose ends are no longer seen, because the programs are detached one after another.
func (t *OperationTables) Stop() error {
	if t == nil {
		return nil
	}
	return t.stopped.Put(uint32(0), uint64(1))
}

// Close closes the tables. They may be nil.
func (t *OperationTables) Close() {
	if t != nil {
		t.Open.Close()
		t.Totals.Close()
		t.Shares.Close()
		t.stopped.Close()
		t.inner.Close()
	}
}

// Operations identifies the operations of one kind. Each kind has an ID below query.MaxKinds.
type Operations struct {
	*OperationTables
	Kind uint32
	// Numbered means that the kind is the ID of the sections, so that those of all kinds can be
	// alike.
	Numbered bool
	// Summed means that the totals of all kinds are those of kind 0, so that a kind can be any
	// number.
	Summed bool
}

// NewTables creates the tables of operations. Shared tables have twice the room, which the users of
// the machine divide: one user alone can have query.MaxOpen operations.
func (l *Latency) NewTables(shared bool) (t *OperationTables, err error) {
	most := query.MaxOpen
	if shared {
		most *= 2
	}
	t = &OperationTables{}
	defer func() {
		if err != nil {
			t.Close()
		}
	}()
	t.Open, err = ebpf.NewMap(
		&ebpf.MapSpec{
			Name: "open", Type: ebpf.Hash, KeySize: uint32(l.keySize),
			ValueSize: uint32(l.valueSize), MaxEntries: uint32(most),
		},
	)
	if err != nil {
		return nil, err
	}
	t.Totals, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "totals", Type: ebpf.PerCPUArray,
		KeySize: 4, ValueSize: layout.TotalsSize, MaxEntries: query.MaxKinds,
	})
	if err == nil {
		t.stopped, err = ebpf.NewMap(
			&ebpf.MapSpec{Name: "stopped", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1},
		)
	}
	if err == nil && l.pairing.Nested {
		t.inner, err = newInner(most)
	}
	if err == nil && shared {
		t.Shares, err = layout.NewShares(most)
	}
	return t, err
}

// conditions jumps to no if any of the conditions is false.
func (b *builder) conditions(probe *Probe, all []string, no string) {
	for _, src := range all {
		e, err := probe.ParseFilter(src)
		b.fail(err)
		b.filter(e, no)
	}
}
