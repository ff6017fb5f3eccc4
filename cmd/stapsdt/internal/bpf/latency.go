//go:build linux

package bpf

import (
	"errors"
	"fmt"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// The keys of a Pairing that are not expressions.
const (
	Goroutine = "goroutine"
	Thread    = "thread"
	// Call is for a function and its returns: the goroutine by the address of its g, and the depth of its
	// stack, which stay the same when the stack moves.
	Call = "call"
)

// Pairing defines which start belongs to which end, and what is counted.
type Pairing struct {
	// Key is an expression of the variables of both probes, or Goroutine, Thread or Call. Only
	// events of one process are paired.
	Key string
	// Where are conditions, and By are expressions. Each is evaluated at the end if the end has its
	// variables, and otherwise at the start.
	Where, By []string
	// AtStart evaluates all of them at the start.
	AtStart bool
	// Details also records By and the arguments of the start in an open operation, as far as the
	// stack of the start program has room.
	Details bool
	// Kinds says that there may be several kinds of operations, whose details differ: see Latency.Of.
	Kinds bool
}

// Latency generates a pair of programs. The start program stores the start time in a map of open
// operations. The end program removes it and records the elapsed time.
type Latency struct {
	// Key is part of the key of the map of open operations, and Open are in its values: the
	// expressions of By that are evaluated at the start. With Details, the first OpenBy of them are
	// those of By that the start has, and the others are its arguments.
	Key    layout.Item
	Open   []layout.Item
	OpenBy int

	pairing    Pairing
	startWhere []string
	endWhere   []string
	atStart    map[string]int // the indices in Open of what By asks of the start
	valueSize  int
	seen       *ebpf.Map // or nil
}

// MaxOpen is the maximum number of open operations.
const MaxOpen = 1 << 16

// MaxKinds is the maximum number of kinds of operations in one run. A kind has its own starts and
// ends.
const MaxKinds = 1024

// latencyType is the type of the elapsed time.
var latencyType = expr.Type{Kind: expr.Int, Size: 8, Duration: true}

// NewLatency decides which expressions are evaluated at the start and which at the end, from one
// probe of each. Other starts and ends must have equal keys.
func NewLatency(start, end *Probe, pairing Pairing) (*Latency, error) {
	l := &Latency{pairing: pairing, atStart: map[string]int{}, valueSize: layout.OpenHeader}
	key, err := start.pairKey(pairing.Key)
	if err != nil {
		return nil, err
	}
	l.Key = key.Item
	for _, src := range pairing.Where {
		atStart, err := pairing.isAtStart(start, end, src)
		if err != nil {
			return nil, err
		}
		if atStart {
			l.startWhere = append(l.startWhere, src)
		} else {
			l.endWhere = append(l.endWhere, src)
		}
	}
	for _, src := range pairing.By {
		atStart, err := pairing.isAtStart(start, end, src)
		if err != nil {
			return nil, err
		}
		if !atStart {
			continue
		}
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

// kindsRoom is the size of an open operation if there may be several kinds, whose details have to have room.
const kindsRoom = 256

// Of returns the plan for the operations that another probe starts. It differs in the details, and can be used with the same tables.
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

// isAtStart reports whether an expression is evaluated at the start.
func (p *Pairing) isAtStart(start, end *Probe, src string) (bool, error) {
	_, err := end.Parse(src)
	if err == nil && !p.AtStart {
		return false, nil
	}
	if _, startErr := start.Parse(src); startErr == nil {
		return true, nil
	}
	var wrong *expr.Error
	if errors.As(err, &wrong) {
		return false, &expr.Error{Src: src, Pos: wrong.Pos, Msg: fmt.Sprintf("%s (neither %v nor %v has all that this asks for)", wrong.Msg, start, end)}
	}
	return false, err
}

// addressType makes the key of a Call an address for output.
var addressType = &sdt.Type{Kind: sdt.KindPointer, Size: 8, Elem: &sdt.Type{}}

// pairKey returns the value that distinguishes the operations of a process.
func (p *Probe) pairKey(key string) (item, error) {
	if key == Call {
		return item{Item: layout.Item{Name: key, Type: expr.Type{Kind: expr.Uint, Size: 8}, Described: addressType, Offset: layout.KeyHeader, Size: 16}}, nil
	}
	if key == Goroutine || key == Thread {
		return item{Item: layout.Item{Name: key, Type: expr.Type{Kind: expr.Uint, Size: 8}, Offset: layout.KeyHeader, Size: 8}}, nil
	}
	return p.keyItem(key, layout.KeyHeader)
}

// sameKey returns the key of another start or end. It is an error if the two can never be equal.
func (l *Latency) sameKey(p *Probe) (item, error) {
	item, err := p.pairKey(l.pairing.Key)
	if err != nil {
		return item, err
	}
	if item.Size != l.Key.Size || (item.Type.Kind == expr.String) != (l.Key.Type.Kind == expr.String) {
		return item, fmt.Errorf("the key %s is a %v here, and a %v at another probe", l.pairing.Key, item.Type, l.Key.Type)
	}
	return item, nil
}

// OperationTables are the map of open operations and the array of layout.Totals. Shares may be nil.
type OperationTables struct {
	Open, Totals *ebpf.Map
	Shares       *layout.Shares
}

// Close closes the tables. They may be nil.
func (t *OperationTables) Close() {
	if t != nil {
		t.Open.Close()
		t.Totals.Close()
		t.Shares.Close()
	}
}

// Operations are the operations of one kind. Each kind has a number below MaxKinds.
type Operations struct {
	*OperationTables
	Kind uint32
}

// NewTables creates the tables of operations.
func (l *Latency) NewTables() (t *OperationTables, err error) { return l.newTables(MaxOpen) }

// NewSharedTables creates tables with as much room again, which the users of the machine share: one alone can have MaxOpen.
func (l *Latency) NewSharedTables() (t *OperationTables, err error) {
	if t, err = l.newTables(2 * MaxOpen); err == nil {
		t.Shares, err = layout.NewShares(2 * MaxOpen)
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (l *Latency) newTables(most uint32) (t *OperationTables, err error) {
	t = &OperationTables{}
	t.Open, err = ebpf.NewMap(&ebpf.MapSpec{Name: "open", Type: ebpf.Hash, KeySize: uint32(layout.KeyHeader + l.Key.Size), ValueSize: uint32(l.valueSize), MaxEntries: most})
	if err != nil {
		return nil, err
	}
	t.Totals, err = ebpf.NewMap(&ebpf.MapSpec{Name: "totals", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: layout.TotalsSize, MaxEntries: MaxKinds})
	if err != nil {
		return nil, errors.Join(err, t.Open.Close())
	}
	return t, nil
}

// Start generates the code of a start.
func (l *Latency) Start(env *Env, of Operations, probe *Probe) (*Section, error) {
	keyItem, err := l.sameKey(probe)
	if err != nil {
		return nil, err
	}
	items, err := l.startItems(probe)
	if err != nil {
		return nil, err
	}
	b := newBuilder(env, probe)
	b.begin()
	key, value := b.alloc(int16(layout.KeyHeader+l.Key.Size)), b.alloc(int16(l.valueSize))
	b.reserve([]item{keyItem}, key)
	b.reserve(items, value)
	b.add(asm.Mov.Imm(asm.R0, 0))
	for at := int16(0); at < int16(l.valueSize); at += 8 {
		b.add(asm.StoreMem(asm.RFP, value+at, asm.R0, asm.DWord))
	}
	if err := b.ofExecutable(); err != nil {
		return nil, err
	}
	if err := b.pairKey(&keyItem, key, of.Kind); err != nil {
		return nil, err
	}
	if env.Namespace == nil {
		b.add(asm.StoreMem(asm.RFP, value+layout.OpenThread, regThread, asm.DWord))
	} else {
		b.pidTgid()
		b.add(asm.StoreMem(asm.RFP, value+layout.OpenThread, asm.R0, asm.DWord))
	}
	// An operation that is not selected is open all the same, at the time 0, so that its end is
	// not one without a start.
	b.fault = labelUnevaluated
	if err := b.conditions(probe, l.startWhere, labelPut); err != nil {
		return nil, err
	}
	for i := range items {
		if err := b.openItem(l, &items[i], i, value); err != nil {
			return nil, err
		}
	}
	b.see(l.seen, value)
	b.add(asm.FnKtimeGetNs.Call(), asm.StoreMem(asm.RFP, value+layout.OpenTime, asm.R0, asm.DWord))
	b.put(l, of, key, value)
	b.end()
	return b.section()
}

// put stores an open operation, at labelPut, and counts it unless its conditions are false.
func (b *builder) put(l *Latency, of Operations, key, value int16) {
	b.label(labelPut)
	if of.Shares != nil {
		b.putShared(of, key, value)
	} else {
		b.update(of.Open, key, value, ebpf.UpdateAny)
		b.add(asm.JNE.Imm(asm.R0, 0, labelFull))
	}
	if len(l.startWhere) > 0 || len(l.Open) > 0 {
		b.add(asm.LoadMem(asm.R0, asm.RFP, value+layout.OpenTime, asm.DWord), asm.JEq.Imm(asm.R0, 0, labelExit))
	}
	b.increment(of.Totals, int32(of.Kind), layout.TotalStarts)
	b.jump(labelExit)
	b.label(labelFull)
	b.increment(of.Totals, int32(of.Kind), layout.TotalFull)
	b.jump(labelExit)
	b.label(labelUnevaluated)
	b.increment(b.env.Stats, layout.StatUnevaluated, 0)
	b.jump(labelPut)
}

// startItems returns the items of Open for another start.
func (l *Latency) startItems(probe *Probe) (items []item, err error) {
	for _, like := range l.Open {
		one, err := probe.keyItem(like.Name, like.Offset)
		if l.isDetail(like.Name) && (err != nil || probe.hidden(one.expr) || one.Type != like.Type || one.Size != like.Size) {
			items = append(items, item{Item: layout.Item{Name: like.Name}})
			continue
		}
		if err != nil {
			return nil, err
		}
		if one.Size != like.Size {
			return nil, fmt.Errorf("%s is a %v here, and a %v at another probe", like.Name, one.Type, like.Type)
		}
		items = append(items, one)
	}
	return items, nil
}

// NewEnd returns the aggregate of an end probe. End generates its code.
func (l *Latency) NewEnd(probe *Probe, buckets layout.Buckets) (*Aggregate, error) {
	keys, size, err := l.endItems(probe)
	if err != nil {
		return nil, err
	}
	counts := layout.Counts{Keys: itemsOf(keys), KeySize: size + 8, Bucketed: true}
	a := &Aggregate{Counts: counts, keys: keys, probe: probe, buckets: buckets, Value: latencyType}
	return a, layout.Fits(buckets, a.Value)
}

// endItems returns the items of By in the key of a row, whether they are evaluated at the start or
// at the end.
func (l *Latency) endItems(probe *Probe) (items []item, size int, err error) {
	return keyItems(l.pairing.By, func(src string, offset int) (item, error) {
		i, ok := l.atStart[src]
		if !ok {
			return probe.keyItem(src, offset)
		}
		one := item{Item: l.Open[i]}
		one.Offset = offset
		return one, nil
	})
}

// End generates the code of an end. id identifies the program in rows.
func (l *Latency) End(env *Env, of Operations, a *Aggregate, table *ebpf.Map, id uint32) (*Section, error) {
	return l.end(env, of, a.probe, rowKeys{a.keys, a.KeySize}, func(b *builder, key, value int16) {
		b.bucket(a, key, value)
		b.tally(a, table, id, key, value)
	})
}

// rowKeys are the items in the key of a row, and the size of the key.
type rowKeys struct {
	items []item
	size  int
}

// end generates the code of an end. count emits the code that records the elapsed time in R0. The
// key of the row is at a stack offset, and value is the offset of an 8-byte scratch slot.
func (l *Latency) end(env *Env, of Operations, probe *Probe, row rowKeys, count func(b *builder, key, value int16)) (*Section, error) {
	keys := row.items
	keyItem, err := l.sameKey(probe)
	if err != nil {
		return nil, err
	}
	b := newBuilder(env, probe)
	b.begin()
	b.now()
	key, rowKey := b.alloc(int16(layout.KeyHeader+l.Key.Size)), b.alloc(int16(row.size))
	b.reserve([]item{keyItem}, key)
	for _, one := range keys {
		if _, ok := l.atStart[one.Name]; !ok {
			b.reserve([]item{one}, rowKey)
		}
	}
	if err := b.ofExecutable(); err != nil {
		return nil, err
	}
	if err := b.pairKey(&keyItem, key, of.Kind); err != nil {
		return nil, err
	}
	owner := b.open(l, keys, of, key, rowKey)
	conditional := len(l.startWhere) > 0 || len(l.Open) > 0
	if conditional {
		b.add(asm.JEq.Imm(regStart, 0, labelRejected)) // the start was not selected
	}
	// All that is read is read before the operation is removed, because the section may begin again until then.
	b.fault = labelUnevaluated
	if err := b.conditions(probe, l.endWhere, labelRejected); err != nil {
		return nil, err
	}
	for i := range keys {
		if _, ok := l.atStart[keys[i].Name]; ok {
			continue
		}
		if err := b.keyItem(&keys[i], rowKey); err != nil {
			return nil, err
		}
	}
	b.take(of, key, owner, conditional)
	value := b.alloc(8)
	b.add(asm.Mov.Reg(asm.R0, regTime), asm.Sub.Reg(asm.R0, regStart))
	count(b, rowKey, value)
	b.jump(labelExit)
	b.label(labelRejected)
	b.add(asm.Mov.Imm(regOutcome, rejected))
	b.jump(labelTake)
	b.label(labelUnevaluated)
	b.add(asm.Mov.Imm(regOutcome, unevaluated))
	b.jump(labelTake)
	b.label(labelUnpaired)
	b.increment(of.Totals, int32(of.Kind), layout.TotalEnds)
	b.end()
	return b.section()
}

// regStart is the time of the start, and regThread is the thread and the process as the
// initial PID namespace calls them. regOutcome tells whether the end of an operation counts.
const (
	regStart   = regRecord
	regThread  = regMissing
	regOutcome = regMissing
)

// The values of regOutcome.
const (
	counts      = iota
	rejected    // by a condition
	unevaluated // a condition or a key cannot be evaluated
)

// open leaves the start time of an open operation in regStart and copies its items into the key of a row. If there
// is none, it jumps to labelUnpaired. It returns the stack offset of its owner if the room is divided.
func (b *builder) open(l *Latency, keys []item, of Operations, key, rowKey int16) (owner int16) {
	b.lookup(of.Open.FD(), key)
	b.add(asm.JEq.Imm(asm.R0, 0, labelUnpaired), asm.LoadMem(regStart, asm.R0, layout.OpenTime, asm.DWord))
	for _, item := range keys {
		i, ok := l.atStart[item.Name]
		if !ok {
			continue
		}
		from, to := int16(l.Open[i].Offset), rowKey+int16(item.Offset)
		for at := int16(0); at < int16(item.Size); at += 8 {
			b.add(asm.LoadMem(asm.R1, asm.R0, from+at, asm.DWord), asm.StoreMem(asm.RFP, to+at, asm.R1, asm.DWord))
		}
	}
	if of.Shares != nil {
		owner = b.alloc(8)
		b.add(asm.LoadMem(asm.R1, asm.R0, layout.OpenOwner, asm.DWord), asm.StoreMem(asm.RFP, owner, asm.R1, asm.DWord))
	}
	return owner
}

// take removes an open operation and counts the pair, unless another end has taken the operation meanwhile. It goes
// on if the pair counts. conditional means that regStart is 0 if the start was not selected.
func (b *builder) take(of Operations, key, owner int16, conditional bool) {
	b.add(asm.Mov.Imm(regOutcome, counts))
	b.label(labelTake)
	b.add(asm.LoadMapPtr(asm.R1, of.Open.FD()))
	b.stack(asm.R2, key)
	b.add(asm.FnMapDeleteElem.Call(), asm.JNE.Imm(asm.R0, 0, labelUnpaired))
	if of.Shares != nil {
		b.leave(of.Shares, owner)
	}
	if conditional {
		b.add(asm.JEq.Imm(regStart, 0, labelExit))
	}
	b.increment(of.Totals, int32(of.Kind), layout.TotalPairs)
	b.add(asm.JEq.Imm(regOutcome, rejected, labelExit), asm.JEq.Imm(regOutcome, unevaluated, labelFault))
}

// pairKey stores the key of an open operation on the stack.
func (b *builder) pairKey(item *item, key int16, kind uint32) error {
	// A process of another PID namespace has no number in ours, and its own here.
	b.add(
		asm.FnGetCurrentPidTgid.Call(),
		asm.Mov.Reg(regThread, asm.R0),
		asm.RSh.Imm(asm.R0, 32),
	)
	if kind > 0 {
		b.constant(asm.R1, int64(kind)<<32)
		b.add(asm.Or.Reg(asm.R0, asm.R1))
	}
	b.add(asm.StoreMem(asm.RFP, key, asm.R0, asm.DWord))
	switch {
	case item.expr != nil:
		return b.keyItem(item, key)
	case item.Name == Call:
		b.call(key+int16(item.Offset), labelForeign)
		return nil
	case item.Name == Thread:
		b.add(asm.Mov.Reg(asm.R0, regThread), asm.LSh.Imm(asm.R0, 32), asm.RSh.Imm(asm.R0, 32))
	default:
		b.goroutine(labelForeign)
	}
	b.add(asm.StoreMem(asm.RFP, key+int16(item.Offset), asm.R0, asm.DWord))
	return nil
}

// conditions jumps to no if one of the conditions is false.
func (b *builder) conditions(probe *Probe, all []string, no string) error {
	for _, src := range all {
		e, err := probe.ParseFilter(src)
		if err != nil {
			return err
		}
		if err := b.filter(e, no); err != nil {
			return err
		}
	}
	return nil
}
