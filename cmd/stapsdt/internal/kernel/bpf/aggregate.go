//go:build linux

package bpf

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Aggregate generates a program that counts events in the kernel, in a row for each combination of
// keys.
type Aggregate struct {
	layout.Rows
	// Value is the type of the value, if there is one.
	Value expr.Type

	counting          query.Counting
	stacks            *layout.StackTable // or nil
	keys              []item
	bounds            *query.Bounds // the buckets of query.Counting.Bounds, or nil
	probe             *Probe
	filter, value, id *Expr
	summed            bool // whether values are added
}

// NewAggregate parses the expressions of a program. If stacks is not nil, it also counts by the
// process and its stack. The error is an *expr.Error if an expression is wrong, or the kernel
// cannot evaluate it.
func NewAggregate(probe *Probe, c query.Counting, stacks *layout.StackTable) (*Aggregate, error) {
	a := &Aggregate{counting: c, stacks: stacks, probe: probe, summed: c.Value != ""}
	var err error
	if a.filter, err = probe.ParseFilter(c.Where); err != nil {
		return nil, err
	}
	if a.keys, a.KeySize, err = keyItems(c.By, probe.keyItem); err != nil {
		return nil, err
	}
	if a.summed {
		if a.value, err = probe.parseInteger(c.Value, c.For); err != nil {
			return nil, err
		}
		a.Value = a.value.Type()
	}
	if c.ID != "" {
		if a.id, err = probe.Parse(c.ID); err != nil {
			return nil, err
		}
	}
	return a, a.layOut()
}

// layOut lays out the rows.
func (a *Aggregate) layOut() (err error) {
	c := &a.counting
	a.Keys, a.Latest, a.Stacks = itemsOf(a.keys), c.Latest, a.stacks != nil
	if a.Stacks {
		a.KeySize += layout.StackKey
	}
	if c.Buckets != nil {
		if err := c.Buckets.Fits(a.Value); err != nil {
			if a.value == nil {
				return err
			}
			return &expr.Error{Src: c.Value, Pos: a.value.Root.Pos, Msg: err.Error()}
		}
		a.KeySize += 8
		a.KeyBuckets = c.Buckets.Len()
	}
	if c.Bounds != nil {
		if a.bounds, err = c.Bounds(a.Value); err == nil {
			a.Buckets = a.bounds.Len()
		}
	}
	return err
}

// Slot returns the index of a row's bucket in the list from which the bounds were made.
func (a *Aggregate) Slot(bucket int) int { return a.bounds.Slots[bucket] }

// Section generates the code that counts the events of a probe. id identifies it in rows. The
// tables must have been created for the same layout, and, if Alone reports true, for this probe
// only.
func (a *Aggregate) Section(env *Env, t *layout.Tables, id uint32) (*Section, error) {
	if a.Stacks {
		env = env.awake()
	}
	b := newBuilder(env, a.probe)
	b.begin()
	key := b.alloc(int16(a.KeySize))
	b.reserve(a.keys, key)
	b.ofExecutable()
	b.started()
	b.filter(a.filter, b.exit)
	value := b.number(a.value)
	if a.counting.Rises && a.summed && a.Value.Kind == expr.Int {
		b.add(asm.LoadMem(asm.R0, asm.RFP, value, asm.DWord), asm.JSLT.Imm(asm.R0, 0, labelFault))
	}
	which := b.number(a.id)
	for i := range a.keys {
		b.keyItem(&a.keys[i], key)
	}
	if a.Stacks {
		b.stackFor(a.stacks, key+int16(a.KeySize)-layout.StackKey, labelLost)
	}
	b.count(a, t, id, key, value, which)
	b.end()
	return b.section()
}

// number evaluates an expression, if there is one, and returns the stack offset of its value.
func (b *builder) number(e *Expr) (at int16) {
	if e != nil {
		at = b.alloc(8)
		b.evaluate(e)
		b.add(asm.StoreMem(asm.RFP, at, asm.R0, asm.DWord))
	}
	return at
}

// count counts an event in its row. The key is complete except for the bucket and the ID.
func (b *builder) count(a *Aggregate, t *layout.Tables, id uint32, key, value, which int16) {
	bucket := key + int16(a.KeySize) - 8
	if a.KeyBuckets > 0 {
		b.add(asm.LoadMem(asm.R0, asm.RFP, value, asm.DWord))
		b.bucketOf(a.counting.Buckets, a.Value)
		// for an array, the lower half is the key
		b.add(asm.StoreMem(asm.RFP, bucket, asm.R0, asm.DWord))
	}
	if a.Alone() {
		key = bucket
	} else {
		b.loadID(id)
		b.add(asm.StoreMem(asm.RFP, key, asm.R0, asm.DWord))
	}
	b.row(t, key)
	b.add(asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(regRecord, asm.R1, asm.DWord, layout.RowCount))
	if a.summed {
		b.sum(value, a.Value)
	}
	switch {
	case a.Latest:
		b.add(asm.FnKtimeGetNs.Call(), asm.StoreMem(regRecord, layout.RowTime, asm.R0, asm.DWord))
		b.pidTgid()
		b.add(
			asm.RSh.Imm(asm.R0, 32),
			asm.StoreMem(regRecord, layout.RowProcess, asm.R0, asm.DWord),
			asm.LoadMem(asm.R1, asm.RFP, value, asm.DWord),
			asm.StoreMem(regRecord, layout.RowLatest, asm.R1, asm.DWord),
		)
	case a.bounds != nil:
		if a.id != nil {
			b.exemplar(value, which)
		}
		b.add(asm.LoadMem(asm.R0, asm.RFP, value, asm.DWord))
		b.bounds(a.bounds, a.Value)
		b.add(
			// never true, but the verifier needs the bound
			asm.JGE.Imm(asm.R0, int32(a.bounds.Len()), labelLost),
			asm.LSh.Imm(asm.R0, 3),
			asm.Add.Reg(regRecord, asm.R0),
			asm.Mov.Imm(asm.R1, 1),
			asm.AddAtomic.Mem(regRecord, asm.R1, asm.DWord, layout.RowBuckets),
		)
	}
}

// sum adds a value on the stack to the query.Sum of a row.
func (b *builder) sum(value int16, of expr.Type) {
	half := asm.RSh
	if of.Kind == expr.Int {
		half = asm.ArSh
	}
	b.add(
		asm.LoadMem(asm.R1, asm.RFP, value, asm.DWord),
		asm.Mov.Reg(asm.R2, asm.R1), half.Imm(asm.R2, 32),
		asm.LSh.Imm(asm.R1, 32), asm.ArSh.Imm(asm.R1, 32),
		// compensates for a negative lower half
		asm.Mov.Reg(asm.R3, asm.R1), asm.RSh.Imm(asm.R3, 63), asm.Add.Reg(asm.R2, asm.R3),
		asm.AddAtomic.Mem(regRecord, asm.R1, asm.DWord, layout.RowSum),
		asm.AddAtomic.Mem(regRecord, asm.R2, asm.DWord, layout.RowSum+8),
	)
}

// row leaves the address of the row with the given key in regRecord. It creates a missing row. If
// there is no room, or none for the owner, it uses the overflow row, or jumps to labelLost.
func (b *builder) row(t *layout.Tables, key int16) {
	found, full := b.fresh("row"), b.fresh("overflow")
	b.lookup(t.Rows.FD(), key)
	b.add(asm.JNE.Imm(asm.R0, 0, found))
	if t.Removable() {
		owner := int16(0)
		if t.Shares != nil {
			owner = b.alloc(8)
			b.owner(owner)
			b.room(t.Shares, owner, full)
		}
		b.element(t.Spare, layout.SpareZero, labelLost)
		b.add(asm.Mov.Reg(asm.R3, asm.R0), asm.LoadMapPtr(asm.R1, t.Rows.FD()))
		b.stack(asm.R2, key)
		// another thread may have created it meanwhile
		b.add(asm.Mov.Imm(asm.R4, int32(ebpf.UpdateNoExist)), asm.FnMapUpdateElem.Call())
		if t.Shares != nil {
			made := b.fresh("made")
			b.add(asm.JNE.Imm(asm.R0, 0, made))
			b.enter(t.Shares)
			b.update(t.Owners, key, owner, ebpf.UpdateAny)
			b.label(made)
		}
		b.lookup(t.Rows.FD(), key)
		b.add(asm.JNE.Imm(asm.R0, 0, found))
	}
	b.label(full)
	if t.Overflow {
		b.element(t.Spare, layout.SpareOverflow, labelLost)
	} else {
		b.jump(labelLost)
	}
	b.label(found)
	b.add(asm.Mov.Reg(regRecord, asm.R0))
}

// exemplar stores an event and its span ID in the row. Another event may interleave its words; the
// last word is a checksum that detects this.
func (b *builder) exemplar(value, which int16) {
	b.pidTgid()
	factor := uint64(layout.SpanSpread)
	b.constant(asm.R1, int64(factor))
	b.add(
		asm.RSh.Imm(asm.R0, 32),
		asm.Mul.Reg(asm.R0, asm.R1),
		asm.LoadMem(asm.R2, asm.RFP, which, asm.DWord),
		asm.Xor.Reg(asm.R0, asm.R2),
		asm.StoreMem(asm.RFP, which, asm.R0, asm.DWord),
		asm.FnKtimeGetNs.Call(),
		asm.LoadMem(asm.R1, asm.RFP, value, asm.DWord),
		asm.LoadMem(asm.R2, asm.RFP, which, asm.DWord),
		asm.StoreMem(regRecord, layout.RowExemplar, asm.R1, asm.DWord),
		asm.StoreMem(regRecord, layout.RowExemplar+8, asm.R2, asm.DWord),
		asm.StoreMem(regRecord, layout.RowExemplar+16, asm.R0, asm.DWord),
		asm.Xor.Reg(asm.R0, asm.R1),
		asm.Xor.Reg(asm.R0, asm.R2),
		asm.StoreMem(regRecord, layout.RowExemplar+24, asm.R0, asm.DWord),
	)
}
