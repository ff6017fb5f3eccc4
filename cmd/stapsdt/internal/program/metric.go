//go:build linux

package program

import (
	"fmt"

	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// MetricSpec says what a Metric keeps.
type MetricSpec struct {
	// Value is an expression, whose values are added, or "" to only count events.
	Value string
	// Latest says to keep the latest value too.
	Latest bool
	// Bounds are those of the buckets of a histogram, for the type of the value, or nil.
	Bounds func(expr.Type) (*Bounds, error)
	By     []string
	Where  string // a condition, or ""
	// ID is an expression for the number of a span, which a histogram then keeps of the latest
	// event, or "".
	ID string
}

// Metric is a program that has one row for each combination of keys, so that their number is
// bounded. What has no row is counted in one of its own.
type Metric struct {
	// Keys are in a key of the table, in this order, after the number of the probe in 8 bytes.
	Keys    []Item
	KeySize int
	// Value is the type of the value, if there is one.
	Value expr.Type

	summed bool    // whether the values are added
	latest bool    // whether the latest is kept
	bounds *Bounds // of a histogram, or nil
	probe  *Probe
	filter *Expr
	value  *Expr
	id     *Expr
}

// NewMetric checks the expressions of a program.
func NewMetric(probe *Probe, spec MetricSpec) (*Metric, error) {
	m := &Metric{latest: spec.Latest, summed: spec.Value != "", probe: probe}
	var err error
	if m.filter, err = probe.ParseFilter(spec.Where); err != nil {
		return nil, err
	}
	if m.Keys, m.KeySize, err = keyItems(spec.By, probe.keyItem); err != nil {
		return nil, err
	}
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
	if spec.Bounds != nil {
		m.bounds, err = spec.Bounds(m.Value)
	}
	return m, err
}

// The words of a row. What follows rowSum is that of the latest value, or of a histogram.
const (
	rowLatest  = 16 // the latest value
	rowProcess = 24 // the process that it is of
	rowTime    = 32 // and its time

	rowExemplar = 16 // the latest value, its ID, its time, and these XOR each other
	rowBuckets  = rowExemplar + 4*8
)

// rowSize is the size of a row.
func (m *Metric) rowSize() int {
	switch {
	case m.latest:
		return rowTime + 8
	case m.bounds != nil:
		return rowBuckets + 8*m.bounds.Len()
	}
	return rowSize
}

// Layout is equal for programs that can have the same tables.
func (m *Metric) Layout() string {
	layout := fmt.Sprint(m.rowSize())
	for _, k := range m.Keys {
		layout += fmt.Sprintf(" %d", k.Size)
	}
	return layout
}

// MetricTables are the tables of a Metric.
type MetricTables struct {
	rows     *ebpf.Map
	overflow *ebpf.Map // one row
	zero     *ebpf.Map // one row, which stays what it is
}

// maxPlaces is how many programs without keys can have a row each, which is then at a place
// of its own: to find it costs as much as to count without rows.
const maxPlaces = 64

// maxPerCPU is how large a table may be that has rows for each processor.
const maxPerCPU = 8 << 20

// NewTables makes the tables, with at most so many rows.
func (m *Metric) NewTables(rows int) (t *MetricTables, err error) {
	size := uint32(m.rowSize())
	spec := &ebpf.MapSpec{Name: "series", Type: ebpf.PerCPUHash, KeySize: uint32(m.KeySize), ValueSize: size, MaxEntries: uint32(rows)}
	one := ebpf.MapSpec{Name: "row", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: size, MaxEntries: 1}
	if m.latest || rows*int(size)*ebpf.MustPossibleCPU() > maxPerCPU {
		spec.Type, one.Type = ebpf.Hash, ebpf.Array
	}
	if len(m.Keys) == 0 && !m.latest { // whose rows are removed
		spec.Type, spec.KeySize, spec.MaxEntries = one.Type, 4, uint32(min(rows, maxPlaces))
	}
	t = &MetricTables{}
	defer func() {
		if err != nil {
			t.Close()
		}
	}()
	if t.rows, err = ebpf.NewMap(spec); err != nil {
		return t, err
	}
	if t.overflow, err = ebpf.NewMap(&one); err != nil {
		return t, err
	}
	one.Type = ebpf.Array
	t.zero, err = ebpf.NewMap(&one)
	return t, err
}

// Close releases the tables.
func (t *MetricTables) Close() {
	t.rows.Close()
	t.overflow.Close()
	t.zero.Close()
}

// Section returns what counts the events of a probe. Its rows have the number id.
func (m *Metric) Section(env *Env, t *MetricTables, id uint32) (*Section, error) {
	b := newBuilder(env, m.probe)
	b.begin()
	key := b.alloc(int16(m.KeySize))
	b.reserve(m.Keys, key)
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
	if m.summed && !m.latest && m.bounds == nil && m.Value.Kind == expr.Int {
		b.add(asm.LoadMem(asm.R0, asm.RFP, value, asm.DWord), asm.JSLT.Imm(asm.R0, 0, labelFault)) // a counter never falls
	}
	for i := range m.Keys {
		if err := b.keyItem(&m.Keys[i], key); err != nil {
			return nil, err
		}
	}
	b.record(m, t, id, key, value, which)
	b.end()
	return b.section()
}

// number puts the value of an expression, if there is one, onto the stack.
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

// record counts an event in its row. The key has everything but the number.
func (b *builder) record(m *Metric, t *MetricTables, id uint32, key, value, which int16) {
	b.constant(asm.R0, int64(id))
	b.add(asm.StoreMem(asm.RFP, key, asm.R0, asm.DWord))
	b.series(t, key)
	b.add(
		asm.Mov.Reg(regRecord, asm.R0),
		asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(regRecord, asm.R1, asm.DWord, rowCount),
	)
	if !m.summed {
		return
	}
	b.add(asm.LoadMem(asm.R1, asm.RFP, value, asm.DWord), asm.AddAtomic.Mem(regRecord, asm.R1, asm.DWord, rowSum))
	switch {
	case m.latest:
		b.add(asm.FnKtimeGetNs.Call(), asm.StoreMem(regRecord, rowTime, asm.R0, asm.DWord))
		b.pidTgid()
		b.add(
			asm.RSh.Imm(asm.R0, 32), asm.StoreMem(regRecord, rowProcess, asm.R0, asm.DWord),
			asm.LoadMem(asm.R1, asm.RFP, value, asm.DWord), asm.StoreMem(regRecord, rowLatest, asm.R1, asm.DWord),
		)
	case m.bounds != nil:
		if m.id != nil {
			b.exemplar(value, which)
		}
		b.add(asm.LoadMem(asm.R0, asm.RFP, value, asm.DWord))
		m.bounds.emit(b, m.Value)
		b.add(
			asm.JGE.Imm(asm.R0, int32(m.bounds.Len()), labelLost), // it is not, which the verifier is to know
			asm.LSh.Imm(asm.R0, 3),
			asm.Add.Reg(regRecord, asm.R0),
			asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(regRecord, asm.R1, asm.DWord, rowBuckets),
		)
	}
}

// series leaves the row of a key in R0. It is made if there is none, and what has no room has
// the row of t.overflow.
func (b *builder) series(t *MetricTables, key int16) {
	b.lookup(t.rows.FD(), key)
	found := b.fresh("series")
	b.add(asm.JNE.Imm(asm.R0, 0, found))
	if !t.places() {
		b.add(asm.StoreImm(asm.RFP, b.word, 0, asm.Word))
		b.lookup(t.zero.FD(), b.word)
		b.add(
			asm.JEq.Imm(asm.R0, 0, labelLost),
			asm.Mov.Reg(asm.R3, asm.R0),
			asm.LoadMapPtr(asm.R1, t.rows.FD()),
		)
		b.stack(asm.R2, key)
		const noExist = 1 // another thread may have made it meanwhile
		b.add(asm.Mov.Imm(asm.R4, noExist), asm.FnMapUpdateElem.Call())
		b.lookup(t.rows.FD(), key)
		b.add(asm.JNE.Imm(asm.R0, 0, found))
	}
	b.add(asm.StoreImm(asm.RFP, b.word, 0, asm.Word))
	b.lookup(t.overflow.FD(), b.word)
	b.add(asm.JEq.Imm(asm.R0, 0, labelLost))
	b.label(found)
}

// spread keeps the spans of different processes apart.
const spread = 0x9E37_79B9_7F4A_7C15

// SpanID returns an ID that a span has outside of its process, in which the numbers of spans
// are unique.
func SpanID(pid uint32, id uint64) uint64 { return id ^ uint64(pid)*spread }

// exemplar keeps an event in its row, with its SpanID. Another one can come between the
// words, which the last of them tells.
func (b *builder) exemplar(value, which int16) {
	b.pidTgid()
	factor := uint64(spread)
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
		asm.StoreMem(regRecord, rowExemplar, asm.R1, asm.DWord),
		asm.StoreMem(regRecord, rowExemplar+8, asm.R2, asm.DWord),
		asm.StoreMem(regRecord, rowExemplar+16, asm.R0, asm.DWord),
		asm.Xor.Reg(asm.R0, asm.R1),
		asm.Xor.Reg(asm.R0, asm.R2),
		asm.StoreMem(regRecord, rowExemplar+24, asm.R0, asm.DWord),
	)
}

// NewEndMetric returns what counts the time from a start to an end, with the keys of l. Its
// section is that of EndMetric.
func (l *Latency) NewEndMetric(probe *Probe, bounds func(expr.Type) (*Bounds, error)) (*Metric, error) {
	keys, size, err := l.endItems(probe)
	if err != nil {
		return nil, err
	}
	m := &Metric{Keys: keys, KeySize: size, summed: true, probe: probe, Value: latencyType}
	m.bounds, err = bounds(m.Value)
	return m, err
}

// EndOnly returns what an end of operations does that are only counted while they are open.
func (l *Latency) EndOnly(env *Env, of Operations, probe *Probe) (*Section, error) {
	return l.end(env, of, probe, rowKeys{nil, keyHeader}, func(*builder, int16, int16) {})
}

// EndMetric returns what an end of operations does. Its rows have the number id.
func (l *Latency) EndMetric(env *Env, of Operations, m *Metric, t *MetricTables, id uint32) (*Section, error) {
	return l.end(env, of, m.probe, rowKeys{m.Keys, m.KeySize}, func(b *builder, key, value int16) {
		b.add(asm.StoreMem(asm.RFP, value, asm.R0, asm.DWord))
		b.record(m, t, id, key, value, 0)
	})
}

// Slot returns the number that a bucket of a row has in the list of the bounds.
func (m *Metric) Slot(bucket int) int { return m.bounds.slots[bucket] }
