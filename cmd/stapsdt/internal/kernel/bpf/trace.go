//go:build linux

package bpf

import (
	"fmt"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// item is a value that a program writes to a record or to a key.
type item struct {
	value.Item
	source origin
	isArg  bool
	absent bool // the program marks it as missing
	kept   bool // the length of the string follows its slot
	expr   *Expr
}

// itemsOf returns the parts of items that readers need.
func itemsOf(items []item) (all []value.Item) {
	for i := range items {
		all = append(all, items[i].Item)
	}
	return all
}

// Trace generates a program that writes a record of each event.
type Trace struct {
	// Items are the values in a record, in order. A record has Size bytes.
	Items []value.Item
	Size  int
	// Executables are the indexes of the items that the reader of the records sets to the name of
	// the executable, because programs cannot read it.
	Executables []int

	items  []item
	probe  *Probe
	filter *Expr
	stacks *layout.StackTable // nil unless the records have stacks
}

// maxRecord keeps offsets in a record within the 16 bits that instructions have for them.
const maxRecord = 32000

// MaxItems is the maximum number of values in a record.
const MaxItems = 64

// ownItems is the number of items that a Trace leaves for those that are not values of the probe.
const ownItems = 8

// NewTrace lays out the records of a probe: all arguments, or the values of the expressions in
// show. textSize is the number of bytes of a string that are shown. If deep is true, structs that
// arguments point to are recorded too.
func NewTrace(probe *Probe, filter string, show []string, textSize int, deep bool) (*Trace, error) {
	t := &Trace{probe: probe, Size: layout.EventHeader}
	var err error
	if t.filter, err = probe.ParseFilter(filter); err != nil {
		return nil, err
	}
	for _, src := range show {
		e, err := probe.Parse(src)
		if err != nil {
			return nil, err
		}
		t.items = append(t.items, probe.item(e))
	}
	if len(show) == 0 {
		t.items = probe.argItems()
		if one, ok := probe.elapsed(); ok {
			t.items = append(t.items, one)
		}
		if deep {
			t.items = append(t.items, probe.capacities(MaxItems-ownItems-len(t.items))...)
		}
	}
	if len(t.items) > MaxItems {
		return nil, fmt.Errorf("%v has %d values, at most %d can be shown", probe, len(t.items), MaxItems)
	}
	for i := range t.items {
		item := &t.items[i]
		item.Offset, item.Size = t.Size, 8
		if item.Type.Kind == expr.String {
			item.TextSize = item.textSize(textSize)
			item.Size = layout.TextHeader + (item.TextSize+2+7)&^7
		}
		if deep && item.isArg && item.Unreadable == nil {
			var size int
			item.Details, size = details(item.Described, item.Offset+8, textSize)
			item.Size += size
		}
		if item.isArg && probe.arg(item.source.arg).Data != nil {
			var size int
			item.Details, size = layDetails(dataType, item.Offset+8, textSize)
			item.Size += size
		}
		if item.source.kind == fromExecutable && CheckExecutable() != nil {
			item.absent = true
			t.Executables = append(t.Executables, i)
		}
		t.Size += item.Size
	}
	if t.Size > maxRecord {
		return nil, fmt.Errorf("an event of %v takes %d bytes, but at most %d are possible: use a smaller --strlen", probe, t.Size, maxRecord)
	}
	t.Items = itemsOf(t.items)
	return t, nil
}

func (p *Probe) argItems() (all []item) {
	for i, a := range p.Args {
		item := item{
			Item: value.Item{
				Name: p.ArgName(i), Type: ArgType(a.Arg), Described: a.Type, Unreadable: a.Err,
				IsGo: a.Length != nil, IsBytes: value.IsBytes(a.Type), Names: a.Names,
				Constants: a.Constants,
			},
			source: origin{fromArg, i}, isArg: true,
		}
		if a.Err == nil && a.Operand.Kind == sdt.OperandVector {
			item.Unreadable = fmt.Errorf("the kernel does not show the register %s", a.Operand.Text)
		}
		all = append(all, item)
	}
	return all
}

// capacities returns items of at most most capacities of slices.
func (p *Probe) capacities(most int) (all []item) {
	for i, a := range p.Fields {
		if a.Capacity && len(all) < most {
			all = append(all, item{
				Item:   value.Item{Name: a.Name, Type: ArgType(a.Arg), Described: a.Type},
				source: origin{fromArg, len(p.Args) + i}, isArg: true,
			})
		}
	}
	return all
}

// ArgItems describes the arguments.
func (p *Probe) ArgItems() []value.Item { return itemsOf(p.argItems()) }

// AddCgroup adds the ID of the control group of the process that fires to the records.
func (t *Trace) AddCgroup() { t.add("cgroup", fromCgroup, 8) }

// AddGoroutine adds the ID of the goroutine that fires to the records. It is missing if the event
// is not fired by a goroutine, or by that of a program that is neither the function's nor in
// Env.Goroutines.
func (t *Trace) AddGoroutine() { t.add(query.Goroutine, fromGoroutine, 8) }

// AddCall adds two words to the records that identify a call of a function: the address of its
// goroutine's g and the depth of its stack. They are missing on other stacks.
func (t *Trace) AddCall() { t.add(query.Call, fromCall, 16) }

// AddStack adds two words to the records: the process, and the layout.StackID of the stack from
// which the event is fired. For the return of a function it is that of the call. They are missing
// if the table has no room.
func (t *Trace) AddStack(stacks *layout.StackTable) error {
	if len(t.items) == MaxItems {
		return fmt.Errorf("%v has %d values, which leave no room for a stack", t.probe, len(t.items))
	}
	t.stacks = stacks
	t.add("stack", fromStack, layout.StackKey)
	return t.probe.StackErr()
}

func (t *Trace) add(name string, from sourceKind, size int) {
	one := value.Item{Name: name, Type: expr.Type{Kind: expr.Uint, Size: 8}, Size: size}
	t.append(item{Item: one, source: origin{kind: from}})
}

// append adds an item to the records.
func (t *Trace) append(one item) {
	one.Offset = t.Size
	t.items = append(t.items, one)
	t.Size += one.Size
	t.Items = append(t.Items, one.Item)
}

// AddCondition adds the value of a condition to the records. It is missing if the condition cannot
// be evaluated.
func (t *Trace) AddCondition(e *Expr) error {
	if len(t.items) == MaxItems {
		return fmt.Errorf("%v has %d values, which leave no room for a condition", t.probe, len(t.items))
	}
	item := t.probe.item(e)
	item.Size = 8
	t.append(item)
	return nil
}

// item returns the value of an expression. An expression that is only an argument is shown like the
// argument.
func (p *Probe) item(e *Expr) item {
	item := item{Item: value.Item{Name: e.String(), Type: e.Type()}, expr: e}
	if e.Root.Op == expr.Load {
		s := e.vars.sources[e.Root.Var]
		item.source = s
		switch {
		case s.kind == fromArg:
			item.isArg = true
			item.Described = p.arg(s.arg).Type
			item.Unreadable = p.arg(s.arg).Err
			item.Names, item.Constants = p.arg(s.arg).Names, p.arg(s.arg).Constants
		case s.kind == fromText:
			item.isArg = true
			item.IsGo, item.IsBytes = p.arg(s.arg).Length != nil, value.IsBytes(p.arg(s.arg).Type)
			item.source.kind = fromArg
		case s.kind == fromStart:
			p.setStarted(&item, s.arg)
		}
	}
	return item
}

// Section generates the code that writes records with the given ID to the ring buffer.
func (t *Trace) Section(env *Env, ring *ebpf.Map, id uint32) (*Section, error) {
	if t.stacks != nil {
		env = env.awake()
	}
	b := newBuilder(env, t.probe)
	b.begin()
	b.ofExecutable()
	b.started()
	b.filter(t.filter, b.exit)
	if b.starting == nil {
		b.now()
	}
	b.add(
		asm.LoadMapPtr(asm.R1, ring.FD()),
		asm.Mov.Imm(asm.R2, int32(t.Size)),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnRingbufReserve.Call(),
		asm.JEq.Imm(asm.R0, 0, labelLost),
		asm.Mov.Reg(regRecord, asm.R0),
	)
	b.reserved = true
	b.add(
		asm.StoreMem(regRecord, layout.EventTime, regTime, asm.DWord),
		asm.Mov.Imm(regMissing, 0),
	)
	b.loadID(id)
	b.add(asm.StoreMem(regRecord, layout.EventID, asm.R0, asm.Word))
	b.pidTgid()
	b.add(
		asm.StoreMem(regRecord, layout.EventPID, asm.R0, asm.DWord),
		asm.Mov.Reg(asm.R1, regRecord),
		asm.Add.Imm(asm.R1, layout.EventComm),
		asm.Mov.Imm(asm.R2, layout.CommSize),
		asm.FnGetCurrentComm.Call(),
	)
	for i := range t.items {
		b.item(t, i)
	}
	b.add(
		asm.StoreMem(regRecord, layout.EventMissing, regMissing, asm.DWord),
		asm.Mov.Reg(asm.R1, regRecord),
		asm.Mov.Imm(asm.R2, 0),
		asm.FnRingbufSubmit.Call(),
	)
	b.end()
	return b.section()
}

// item writes an item of a record, or marks it as missing.
func (b *builder) item(t *Trace, number int) {
	item := &t.items[number]
	missing, done := b.fresh("missing"), b.fresh("item")
	b.scope(func() {
		b.fault = missing
		if item.source.kind == fromStack {
			b.itemStack(t.stacks, int16(item.Offset))
			return
		}
		b.itemValue(item, int16(item.Offset))
	})
	b.jump(done)
	b.label(missing)
	b.constant(asm.R1, int64(1)<<number)
	b.add(asm.Or.Reg(regMissing, asm.R1))
	b.label(done)
}

// itemStack writes the process and the stack.
func (b *builder) itemStack(stacks *layout.StackTable, offset int16) {
	at := b.alloc(layout.StackKey)
	b.stackFor(stacks, at, b.fault)
	b.copy(regRecord, offset, asm.RFP, at, layout.StackKey)
}

func (b *builder) itemValue(item *item, offset int16) {
	isText := item.Type.Kind == expr.String
	switch at, fetched := b.nums[item.source]; {
	case item.Unreadable != nil || item.absent:
		b.jump(b.fault)
		return
	case item.source.kind == fromGoroutine:
		b.goroutine(b.fault)
	case item.source.kind == fromCall:
		at := b.alloc(16)
		b.call(at, b.fault)
		b.add(
			asm.LoadMem(asm.R0, asm.RFP, at+8, asm.DWord),
			asm.StoreMem(regRecord, offset+8, asm.R0, asm.DWord),
			asm.LoadMem(asm.R0, asm.RFP, at, asm.DWord),
		)
	case item.expr == nil && item.source.kind == fromCgroup:
		b.processNumber(fromCgroup)
	case isText && !item.isArg:
		b.recordText(item, offset)
		return
	case item.isArg && fetched:
		b.add(asm.LoadMem(asm.R0, asm.RFP, at, asm.DWord))
	case item.isArg:
		b.fail(b.argument(item.source.arg, b.fault))
	default:
		b.evaluate(item.expr)
	}
	b.add(asm.StoreMem(regRecord, offset, asm.R0, asm.DWord))
	if item.Details != nil && item.Names != nil {
		b.errorText(b.probe.arg(item.source.arg), item.Details)
	} else if item.Details != nil {
		at := b.alloc(8)
		b.add(asm.StoreMem(asm.RFP, at, asm.R0, asm.DWord))
		b.details(item.Details, at)
	}
	if isText {
		// The filter may have read a part of the string, and the record gets more of it.
		at := b.alloc(8)
		b.add(asm.StoreMem(asm.RFP, at, asm.R0, asm.DWord))
		most := int32(item.TextSize + 1)
		b.fail(b.readArg(item.source.arg, regRecord, offset+layout.TextHeader, most, at, b.fault))
		b.add(asm.StoreMem(regRecord, offset+8, asm.R0, asm.DWord))
	}
}

// recordText writes a string that is not an argument, comm or executable, to a record.
func (b *builder) recordText(item *item, offset int16) {
	if item.expr.Root.Op != expr.Load {
		(&compiler{b, item.expr}).refuse(item.expr.Root, "a text must be a variable")
		return
	}
	if item.source.kind == fromExecutable {
		b.fail(b.executable(regRecord, offset+layout.TextHeader, int32(item.TextSize+2), b.fault))
	} else {
		b.fail(b.variable(item.source, b.fault))
		t := b.text(item.source)
		size := min(t.size, int16(item.TextSize+2+7)&^7)
		b.copy(regRecord, offset+layout.TextHeader, asm.RFP, t.at, size)
		if item.source.kind == fromComm {
			b.add(asm.Mov.Imm(asm.R0, layout.CommSize))
		} else {
			b.add(asm.LoadMem(asm.R0, asm.RFP, t.length, asm.DWord))
		}
	}
	b.add(
		asm.Mov.Imm(asm.R5, 1),
		asm.StoreMem(regRecord, offset, asm.R5, asm.DWord),
		asm.StoreMem(regRecord, offset+8, asm.R0, asm.DWord),
	)
}
