//go:build linux

package bpf

import (
	"fmt"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Latency generates a pair of programs. The start program stores the start time in a map of open
// operations. The end program removes it and records the elapsed time.
type Latency struct {
	// Key is part of the key of the map of open operations. Open are the items of its values: the
	// expressions of By that are evaluated at the start. With Details, the first OpenBy items are
	// the expressions of By that the start has, and the others are the start's arguments.
	Key    layout.Item
	Open   []layout.Item
	OpenBy int

	pairing    Pairing
	startWhere []string
	endWhere   []string
	atStart    map[string]int // the indexes in Open of the expressions of By that are evaluated at the start
	valueSize  int
	seen       *ebpf.Map // the table of NewSeen, or nil
}

// MaxOpen is the maximum number of open operations.
const MaxOpen = 1 << 16

// MaxKinds is the maximum number of kinds of operations in one run. A kind has its own starts and ends.
const MaxKinds = 1024

// NewLatency decides which expressions are evaluated at the start and which at the end, from one
// probe of each. Other starts and ends must have equal keys.
func NewLatency(start, end *Probe, pairing Pairing) (*Latency, error) {
	l := &Latency{pairing: pairing, atStart: map[string]int{}, valueSize: layout.OpenHeader}
	key, err := start.pairKey(pairing.Key)
	if err != nil {
		return nil, err
	}
	l.Key = key.Item
	if l.startWhere, l.endWhere, err = pairing.divide(start, end, pairing.Where); err != nil {
		return nil, err
	}
	atStart, _, err := pairing.divide(start, end, pairing.By)
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
	asked := l.valueSize
	if l.pairing.Kinds {
		for l.valueSize < kindsRoom && l.startStack()+8 <= stackSize {
			l.valueSize += 8
		}
	}
	l.details(start, asked, stackSize)
	return l, nil
}

// kindsRoom is the size of an open operation if there may be several kinds, whose details need room.
const kindsRoom = 256

// Of returns the plan for operations that another probe starts. Only its details differ, so it can use the same tables.
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

// OperationTables holds the map of open operations and the array of layout.Totals. Shares may be nil.
type OperationTables struct {
	Open, Totals *ebpf.Map
	Shares       *layout.Shares

	stopped *ebpf.Map // one word, which is 1 after Stop
}

// Stop ends the pairing of starts and ends at the same time. The programs are detached one after another: otherwise the
// starts of one would be counted whose ends another no longer sees.
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
	}
}

// Operations identifies the operations of one kind. Each kind has an ID below MaxKinds.
type Operations struct {
	*OperationTables
	Kind uint32
}

// NewTables creates the tables of operations. Shared tables have twice the room, which the users of the machine divide:
// one user alone can have MaxOpen operations.
func (l *Latency) NewTables(shared bool) (t *OperationTables, err error) {
	most := MaxOpen
	if shared {
		most *= 2
	}
	t = &OperationTables{}
	defer func() {
		if err != nil {
			t.Close()
		}
	}()
	t.Open, err = ebpf.NewMap(&ebpf.MapSpec{Name: "open", Type: ebpf.Hash, KeySize: uint32(layout.KeyHeader + l.Key.Size), ValueSize: uint32(l.valueSize), MaxEntries: uint32(most)})
	if err != nil {
		return nil, err
	}
	t.Totals, err = ebpf.NewMap(&ebpf.MapSpec{Name: "totals", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: layout.TotalsSize, MaxEntries: MaxKinds})
	if err == nil {
		t.stopped, err = ebpf.NewMap(&ebpf.MapSpec{Name: "stopped", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
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

// shown reports whether argument i of the start need not be recorded: it is the key, is in Open, or is the ID of the
// parent.
func (l *Latency) shown(start *Probe, i int) bool {
	is := func(src string) bool { return src == start.ArgName(i) || src == fmt.Sprintf("arg%d", i) }
	return is(l.pairing.Key) || is("parent") || slices.ContainsFunc(l.Open, func(item layout.Item) bool { return is(item.Name) })
}

// details appends to Open the items that describe the operations of a start, as long as the stack and a value of most
// bytes have room. used is the number of bytes that Open takes already.
func (l *Latency) details(start *Probe, used, most int) {
	for _, src := range l.pairing.By {
		if _, asked := l.atStart[src]; !asked {
			used = l.detail(start, src, used, most)
		}
	}
	l.OpenBy = len(l.Open)
	// Their columns have the order of By.
	slices.SortFunc(l.Open, func(a, b layout.Item) int {
		return slices.Index(l.pairing.By, a.Name) - slices.Index(l.pairing.By, b.Name)
	})
	asked := map[string]int{}
	for i, item := range l.Open {
		if !l.isDetail(item.Name) {
			asked[item.Name] = i
		}
	}
	l.atStart = asked
	for i := range start.Args {
		if name := start.ArgName(i); !l.shown(start, i) {
			used = l.detail(start, name, used, most)
		}
	}
}

// detail appends an expression to Open if the start can evaluate it and there is room. It returns the new size of Open in bytes.
func (l *Latency) detail(start *Probe, src string, used, most int) int {
	if !l.pairing.Details {
		return used
	}
	item, err := start.keyItem(src, used)
	needed := max(used+item.Size-l.valueSize, 0) // the bytes beyond the size of the value
	if err != nil || start.hidden(item.expr) || len(l.Open) == layout.MaxKnown || used+item.Size > most || l.startStack()+needed > stackSize {
		return used
	}
	l.Open = append(l.Open, item.Item)
	used += item.Size
	l.valueSize = max(l.valueSize, used)
	return used
}

// startStack estimates the stack usage of the start program, with one string for each condition.
func (l *Latency) startStack() int {
	const scratch, fetched = 128, 16 // fetched has room for an address and a length
	return scratch + layout.KeyHeader + l.Key.Size + l.valueSize + fetched*len(l.atStart) + textSlot*len(l.startWhere)
}

// openItem stores the i-th item of Open in the value. It leaves out a detail that cannot be evaluated.
func (b *builder) openItem(l *Latency, item *item, i int, value int16) {
	if item.expr == nil { // this start does not have it
		return
	}
	known := func() {
		b.keyItem(item, value)
		if i >= layout.MaxKnown {
			return
		}
		b.add(asm.LoadMem(asm.R0, asm.RFP, value+layout.OpenKnown, asm.DWord), asm.Or.Imm(asm.R0, 1<<i), asm.StoreMem(asm.RFP, value+layout.OpenKnown, asm.R0, asm.DWord))
	}
	if !l.isDetail(item.Name) {
		known()
		return
	}
	next := b.fresh("detail")
	b.scope(func() {
		b.fault = next
		known()
	})
	b.label(next)
}

// isDetail reports whether an item of Open is shown only while an operation is open.
func (l *Latency) isDetail(name string) bool {
	_, asked := l.atStart[name]
	return !asked
}

// hidden reports whether an expression is only an argument that the kernel does not show.
func (p *Probe) hidden(e *Expr) bool {
	if e == nil || e.Root.Op != expr.Load {
		return false
	}
	s := e.vars.sources[e.Root.Var]
	return (s.kind == fromArg || s.kind == fromText) && (p.arg(s.arg).Err != nil || p.arg(s.arg).Operand.Kind == sdt.OperandVector)
}
