//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Aggregate generates a program that counts events in the kernel, by the values of expressions and,
// for a histogram, by the bucket of a value.
type Aggregate struct {
	layout.Counts
	// Value is the type of the value that the buckets are of.
	Value expr.Type

	keys    []item
	buckets layout.Buckets
	stacks  *layout.Stacks
	probe   *Probe
	filter  *Expr
	value   *Expr
}

// NewAggregate parses the expressions of a program that counts. buckets is nil, and value is "",
// unless it counts for a histogram. An expression that is wrong, or that the kernel cannot
// evaluate, is an *expr.Error.
func NewAggregate(probe *Probe, filter string, by []string, value string, buckets layout.Buckets) (*Aggregate, error) {
	a := &Aggregate{probe: probe, buckets: buckets}
	var err error
	if a.filter, err = probe.ParseFilter(filter); err != nil {
		return nil, err
	}
	if a.keys, a.KeySize, err = keyItems(by, probe.keyItem); err != nil {
		return nil, err
	}
	a.Keys = itemsOf(a.keys)
	if buckets != nil {
		a.Bucketed = true
		a.KeySize += 8
		if a.value, err = probe.parseInteger(value, layout.What(buckets)); err != nil {
			return nil, err
		}
		a.Value = a.value.Type()
		if err := layout.Fits(buckets, a.Value); err != nil {
			return nil, &expr.Error{Src: value, Pos: a.value.Root.Pos, Msg: err.Error()}
		}
	}
	return a, nil
}

// keyItems returns the values that make up a key, and the size of the key. item returns the value
// of one expression at an offset of the key.
func keyItems(by []string, item func(src string, offset int) (item, error)) (items []item, size int, err error) {
	size = layout.KeyHeader
	for _, src := range by {
		one, err := item(src, size)
		if err != nil {
			return nil, 0, err
		}
		size += one.Size
		items = append(items, one)
	}
	return items, size, nil
}

// keyItem returns the value of an expression, stored at an offset of a key.
func (p *Probe) keyItem(src string, offset int) (item, error) {
	e, err := p.Parse(src)
	if err != nil {
		return item{}, err
	}
	one := p.item(e)
	if one.Type.Kind == expr.String && e.Root.Op != expr.Load {
		return item{}, &expr.Error{Src: src, Pos: e.Root.Pos, Msg: "this cannot be evaluated in the kernel: a text must be a variable"}
	}
	one.Offset, one.Size = offset, 8
	switch {
	case one.Type.Kind == expr.String && one.source.kind == fromComm:
		one.Size, one.TextSize = layout.CommSize, layout.CommSize
	case one.Type.Kind == expr.String:
		one.Size, one.TextSize = textSlot, layout.TextSize
	}
	return one, nil
}

// Layout returns a string that is equal for programs that can share a table.
func (a *Aggregate) Layout() string {
	var b strings.Builder
	for _, k := range a.Keys {
		fmt.Fprintf(&b, "%d ", k.Size)
	}
	return b.String()
}

// NewTable creates a table for programs with this layout. A table without keys is an array with one
// element for each of at most 4096 probes, or for each bucket. Other tables are hashes with the
// given number of rows.
func (a *Aggregate) NewTable(rows uint32) (*ebpf.Map, error) {
	spec := &ebpf.MapSpec{Name: "table", Type: ebpf.PerCPUHash, KeySize: uint32(a.KeySize), ValueSize: layout.RowSize, MaxEntries: rows}
	if !a.Keyed() {
		spec.Type, spec.KeySize, spec.MaxEntries = ebpf.PerCPUArray, 4, maxProbes
		if a.buckets != nil {
			spec.MaxEntries = uint32(a.buckets.Len())
		}
	}
	return ebpf.NewMap(spec)
}

// maxProbes is the number of probes that a table without keys can hold.
const maxProbes = 4096

// Section generates the code that counts the events of a probe. id identifies the probe in rows.
// The table must have been created for the same layout, and, if Alone reports true, for this probe
// only.
func (a *Aggregate) Section(env *Env, table *ebpf.Map, id uint32) (*Section, error) {
	if !a.Keyed() && a.buckets == nil && id >= maxProbes {
		return nil, errors.New("too many different probes: at most 4096 are counted at a time")
	}
	if a.stacks != nil {
		env = env.awake()
	}
	b := newBuilder(env, a.probe)
	b.begin()
	key := b.alloc(int16(a.KeySize))
	b.reserve(a.keys, key)
	if err := b.ofExecutable(); err != nil {
		return nil, err
	}
	if err := b.filter(a.filter, labelExit); err != nil {
		return nil, err
	}
	value := b.alloc(8)
	if a.value != nil {
		if err := b.fetch(a.value, a.value.Root); err != nil {
			return nil, err
		}
		if err := (&compiler{b, a.value}).value(a.value.Root); err != nil {
			return nil, err
		}
		b.bucket(a, key, value)
	}
	for i := range a.keys {
		if err := b.keyItem(&a.keys[i], key); err != nil {
			return nil, err
		}
	}
	if a.stacks != nil {
		b.stackOf(a.stacks, key+int16(a.KeySize)-layout.StackKey)
	}
	b.tally(a, table, id, key, value)
	b.end()
	return b.section()
}

// bucket stores the value in R0 and puts the number of its bucket at the end of the key.
func (b *builder) bucket(a *Aggregate, key, value int16) {
	b.add(asm.StoreMem(asm.RFP, value, asm.R0, asm.DWord))
	b.bucketOf(a.buckets, a.Value)
	// For an array, only the lower half is the key.
	b.add(asm.StoreMem(asm.RFP, key+int16(a.KeySize)-8, asm.R0, asm.DWord))
}

// tally counts an event and, for a histogram, adds its value. The key is complete except for the id
// of the probe.
func (b *builder) tally(a *Aggregate, table *ebpf.Map, id uint32, key, value int16) {
	b.constant(asm.R0, int64(id))
	b.add(asm.StoreMem(asm.RFP, key, asm.R0, asm.DWord))
	if !a.Keyed() && a.buckets != nil {
		key += int16(a.KeySize) - 8
	}
	b.row(table, key, a.Keyed())
	b.add(asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, layout.RowCount))
	if a.buckets != nil {
		b.sum(asm.R0, value, a.Value)
	}
}

// sum adds a value of the stack to the layout.Sum of a row.
func (b *builder) sum(row asm.Register, value int16, of expr.Type) {
	half := asm.RSh
	if of.Kind == expr.Int {
		half = asm.ArSh
	}
	b.add(
		asm.LoadMem(asm.R1, asm.RFP, value, asm.DWord),
		asm.Mov.Reg(asm.R2, asm.R1),
		asm.LSh.Imm(asm.R1, 32), asm.RSh.Imm(asm.R1, 32),
		half.Imm(asm.R2, 32),
		asm.AddAtomic.Mem(row, asm.R1, asm.DWord, layout.RowSum),
		asm.AddAtomic.Mem(row, asm.R2, asm.DWord, layout.RowSum+8),
	)
}

// reserve records which strings are read directly into a key.
func (b *builder) reserve(items []item, key int16) {
	for _, item := range items {
		if s, ok := item.text(); ok {
			if _, taken := b.place[s]; !taken {
				b.place[s] = key + int16(item.Offset)
			}
		}
	}
}

// text returns the source of an item that is a string.
func (i *item) text() (source, bool) {
	if i.Type.Kind != expr.String {
		return source{}, false
	}
	return i.expr.vars.sources[i.expr.Root.Var], true
}

// keyItem evaluates an item and stores it in the key.
func (b *builder) keyItem(item *item, key int16) error {
	at := key + int16(item.Offset)
	if err := b.fetch(item.expr, item.expr.Root); err != nil {
		return err
	}
	s, isText := item.text()
	if !isText {
		if err := (&compiler{b, item.expr}).value(item.expr.Root); err != nil {
			return err
		}
		b.add(asm.StoreMem(asm.RFP, at, asm.R0, asm.DWord))
		return nil
	}
	if t := b.texts[s]; t.at != at { // the same text is in the key twice
		for i := int16(0); i < t.size; i += 8 {
			b.add(asm.LoadMem(asm.R0, asm.RFP, t.at+i, asm.DWord), asm.StoreMem(asm.RFP, at+i, asm.R0, asm.DWord))
		}
	}
	return nil
}

// row leaves the address of the row with the given key in R0. If create is true, it creates a
// missing row; if there is no room, it jumps to labelLost.
func (b *builder) row(table *ebpf.Map, key int16, create bool) {
	b.lookup(table.FD(), key)
	if !create {
		b.add(asm.JEq.Imm(asm.R0, 0, labelLost))
		return
	}
	found := b.fresh("row")
	zero := b.alloc(layout.RowSize)
	b.add(
		asm.JNE.Imm(asm.R0, 0, found),
		asm.Mov.Imm(asm.R0, 0),
		asm.StoreMem(asm.RFP, zero, asm.R0, asm.DWord),
		asm.StoreMem(asm.RFP, zero+8, asm.R0, asm.DWord),
		asm.StoreMem(asm.RFP, zero+16, asm.R0, asm.DWord),
	)
	b.update(table, key, zero, ebpf.UpdateNoExist) // another thread may have made it meanwhile
	b.lookup(table.FD(), key)
	b.add(asm.JEq.Imm(asm.R0, 0, labelLost))
	b.label(found)
}
