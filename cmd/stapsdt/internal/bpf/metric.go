//go:build linux

package bpf

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// MetricSpec defines what a Metric keeps.
type MetricSpec struct {
	// Value is an expression whose values are added up, or "" to count events only.
	Value string
	// Latest also keeps the latest value.
	Latest bool
	// Bounds returns the bounds of the buckets of a histogram for the type of the value. It is nil
	// if there is no histogram.
	Bounds func(expr.Type) (*layout.Bounds, error)
	By     []string
	Where  string // a condition, or ""
	// ID is an expression for the ID of a span, which a histogram keeps with its latest event, or
	// "".
	ID string
}

// Metric generates a program that has one row for each combination of keys. The number of rows is
// bounded; events without a row are counted in the overflow row.
type Metric struct {
	layout.Series
	// Value is the type of the value, if there is one.
	Value expr.Type

	summed bool           // whether the values are added
	bounds *layout.Bounds // of a histogram, or nil
	keys   []item
	probe  *Probe
	filter *Expr
	value  *Expr
	id     *Expr
}

// NewMetric parses the expressions of a program.
func NewMetric(probe *Probe, spec MetricSpec) (*Metric, error) {
	m := &Metric{Series: layout.Series{Latest: spec.Latest}, summed: spec.Value != "", probe: probe}
	var err error
	if m.filter, err = probe.ParseFilter(spec.Where); err != nil {
		return nil, err
	}
	if m.keys, m.KeySize, err = keyItems(spec.By, probe.keyItem); err != nil {
		return nil, err
	}
	m.Keys = itemsOf(m.keys)
	if !m.summed {
		return m, nil
	}
	if m.value, err = probe.parseInteger(spec.Value, "a metric"); err != nil {
		return nil, err
	}
	m.Value = m.value.Type()
	if spec.ID != "" {
		if m.id, err = probe.Parse(spec.ID); err != nil {
			return nil, err
		}
	}
	if spec.Bounds == nil {
		return m, nil
	}
	return m, m.divide(spec.Bounds)
}

// divide sets the buckets of a histogram.
func (m *Metric) divide(bounds func(expr.Type) (*layout.Bounds, error)) (err error) {
	if m.bounds, err = bounds(m.Value); err == nil {
		m.Buckets = m.bounds.Len()
	}
	return err
}

// Section generates the code that counts the events of a probe. id identifies it in rows.
func (m *Metric) Section(env *Env, t *layout.SeriesTables, id uint32) (*Section, error) {
	b := newBuilder(env, m.probe)
	b.begin()
	key := b.alloc(int16(m.KeySize))
	b.reserve(m.keys, key)
	if err := b.ofExecutable(); err != nil {
		return nil, err
	}
	if err := b.filter(m.filter, labelExit); err != nil {
		return nil, err
	}
	value, which := b.alloc(8), b.alloc(8)
	if err := b.number(m.value, value); err != nil {
		return nil, err
	}
	if err := b.number(m.id, which); err != nil {
		return nil, err
	}
	if m.summed && !m.Latest && m.bounds == nil && m.Value.Kind == expr.Int {
		b.add(asm.LoadMem(asm.R0, asm.RFP, value, asm.DWord), asm.JSLT.Imm(asm.R0, 0, labelFault)) // a counter never falls
	}
	for i := range m.keys {
		if err := b.keyItem(&m.keys[i], key); err != nil {
			return nil, err
		}
	}
	b.record(m, t, id, key, value, which)
	b.end()
	return b.section()
}

// number evaluates an expression, if there is one, and stores its value on the stack.
func (b *builder) number(e *Expr, to int16) error {
	if e == nil {
		return nil
	}
	if err := b.fetch(e, e.Root); err != nil {
		return err
	}
	if err := (&compiler{b, e}).value(e.Root); err != nil {
		return err
	}
	b.add(asm.StoreMem(asm.RFP, to, asm.R0, asm.DWord))
	return nil
}

// record counts an event in its row. The key is complete except for the id.
func (b *builder) record(m *Metric, t *layout.SeriesTables, id uint32, key, value, which int16) {
	b.constant(asm.R0, int64(id))
	b.add(asm.StoreMem(asm.RFP, key, asm.R0, asm.DWord))
	b.series(t, key)
	b.add(
		asm.Mov.Reg(regRecord, asm.R0),
		asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(regRecord, asm.R1, asm.DWord, layout.RowCount),
	)
	if !m.summed {
		return
	}
	b.sum(regRecord, value, m.Value)
	switch {
	case m.Latest:
		b.add(asm.FnKtimeGetNs.Call(), asm.StoreMem(regRecord, layout.RowTime, asm.R0, asm.DWord))
		b.pidTgid()
		b.add(
			asm.RSh.Imm(asm.R0, 32), asm.StoreMem(regRecord, layout.RowProcess, asm.R0, asm.DWord),
			asm.LoadMem(asm.R1, asm.RFP, value, asm.DWord), asm.StoreMem(regRecord, layout.RowLatest, asm.R1, asm.DWord),
		)
	case m.bounds != nil:
		if m.id != nil {
			b.exemplar(value, which)
		}
		b.add(asm.LoadMem(asm.R0, asm.RFP, value, asm.DWord))
		b.bounds(m.bounds, m.Value)
		b.add(
			asm.JGE.Imm(asm.R0, int32(m.bounds.Len()), labelLost), // it is not, which the verifier is to know
			asm.LSh.Imm(asm.R0, 3),
			asm.Add.Reg(regRecord, asm.R0),
			asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(regRecord, asm.R1, asm.DWord, layout.RowBuckets),
		)
	}
}

// series leaves the address of the row with the given key in R0. It creates a missing row, and uses
// t.Overflow if there is no room, or none for its owner.
func (b *builder) series(t *layout.SeriesTables, key int16) {
	b.lookup(t.Rows.FD(), key)
	found, full := b.fresh("series"), b.fresh("overflow")
	b.add(asm.JNE.Imm(asm.R0, 0, found))
	if !t.Places() {
		owner := int16(0)
		if t.Shares != nil {
			owner = b.alloc(8)
			b.owner(owner)
			b.room(t.Shares, owner, full)
		}
		b.add(asm.StoreImm(asm.RFP, b.word, 0, asm.Word))
		b.lookup(t.Zero.FD(), b.word)
		b.add(
			asm.JEq.Imm(asm.R0, 0, labelLost),
			asm.Mov.Reg(asm.R3, asm.R0),
			asm.LoadMapPtr(asm.R1, t.Rows.FD()),
		)
		b.stack(asm.R2, key)
		b.add(asm.Mov.Imm(asm.R4, int32(ebpf.UpdateNoExist)), asm.FnMapUpdateElem.Call()) // another thread may have made it meanwhile
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
	b.add(asm.StoreImm(asm.RFP, b.word, 0, asm.Word))
	b.lookup(t.Overflow.FD(), b.word)
	b.add(asm.JEq.Imm(asm.R0, 0, labelLost))
	b.label(found)
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

// NewEndMetric returns the metric of the elapsed time at an end probe. EndMetric generates its
// code.
func (l *Latency) NewEndMetric(probe *Probe, bounds func(expr.Type) (*layout.Bounds, error)) (*Metric, error) {
	keys, size, err := l.endItems(probe)
	if err != nil {
		return nil, err
	}
	m := &Metric{Series: layout.Series{Keys: itemsOf(keys), KeySize: size}, keys: keys, summed: true, probe: probe, Value: latencyType}
	return m, m.divide(bounds)
}

// EndOnly generates the code of an end for operations that are counted only while they are open.
func (l *Latency) EndOnly(env *Env, of Operations, probe *Probe) (*Section, error) {
	return l.end(env, of, probe, rowKeys{nil, layout.KeyHeader}, func(*builder, int16, int16) {})
}

// EndMetric generates the code of an end. id identifies the program in rows.
func (l *Latency) EndMetric(env *Env, of Operations, m *Metric, t *layout.SeriesTables, id uint32) (*Section, error) {
	return l.end(env, of, m.probe, rowKeys{m.keys, m.KeySize}, func(b *builder, key, value int16) {
		b.add(asm.StoreMem(asm.RFP, value, asm.R0, asm.DWord))
		b.record(m, t, id, key, value, 0)
	})
}

// Slot returns the index of a row's bucket in the list from which the bounds were made.
func (m *Metric) Slot(bucket int) int { return m.bounds.Slots[bucket] }
