//go:build linux

package program

import (
	"fmt"

	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// The beginning of a record.
const (
	recordTime    = 0  // CLOCK_MONOTONIC, in nanoseconds
	recordID      = 8  // of the probe
	recordCPU     = 12 //
	recordPID     = 16 // the thread, and then the process
	recordComm    = 24
	recordMissing = 40 // the set of items that could not be read
	RecordHeader  = 48
)

// Item is a value in a record or a key.
type Item struct {
	Name string
	Type expr.Type
	// Described is the type that DWARF gives to an argument, or nil.
	Described *sdt.Type
	// Offset is where it is in the record, and Size is what it takes there. A text is an
	// address, a length and the bytes: the length counts the NUL.
	Offset, Size int
	// TextSize is how much of a text is shown. The record has one byte more, to tell whether
	// there is more, and a NUL.
	TextSize int
	// Details are the struct that an argument points to, or nil.
	Details *Details

	source source
	isArg  bool
	expr   *Expr
	err    error
}

// Err says why an argument can never be read, or is nil.
func (i *Item) Err() error { return i.err }

const textHeader = 16

// Trace is a program that writes a record of each event.
type Trace struct {
	// Items are in a record, in this order, which is Size bytes long.
	Items []Item
	Size  int

	probe  *Probe
	filter *Expr
}

// maxRecord keeps offsets in a record within the 16 bits that instructions have for them.
const maxRecord = 32000

// MaxItems is how many values a record can have.
const MaxItems = 64

// NewTrace lays out the records of a probe: all arguments, or the values of the expressions
// in show. Of texts, textSize bytes are shown. With deep, arguments that point to a struct
// come with it.
func NewTrace(probe *Probe, filter string, show []string, textSize int, deep bool) (*Trace, error) {
	t := &Trace{probe: probe, Size: RecordHeader}
	var err error
	if t.filter, err = probe.ParseFilter(filter); err != nil {
		return nil, err
	}
	for _, src := range show {
		e, err := probe.Parse(src)
		if err != nil {
			return nil, err
		}
		t.Items = append(t.Items, probe.item(e))
	}
	if len(show) == 0 {
		for i, a := range probe.Args {
			item := Item{Name: probe.ArgName(i), Type: ArgType(a.Arg), Described: a.Type, source: source{fromArg, i}, isArg: true, err: a.Err}
			if a.Err == nil && a.Operand.Kind == sdt.OperandVector {
				item.err = fmt.Errorf("the kernel does not show the register %s", a.Operand.Text)
			}
			t.Items = append(t.Items, item)
		}
	}
	if len(t.Items) > MaxItems {
		return nil, fmt.Errorf("%v has %d values, at most %d can be shown", probe, len(t.Items), MaxItems)
	}
	for i := range t.Items {
		item := &t.Items[i]
		item.Offset, item.Size = t.Size, 8
		if item.Type.Kind == expr.String {
			item.TextSize = textSize
			item.Size = textHeader + (textSize+2+7)&^7
		}
		if deep && item.isArg && item.err == nil {
			var size int
			item.Details, size = details(item.Described, item.Offset+8, textSize)
			item.Size += size
		}
		t.Size += item.Size
	}
	if t.Size > maxRecord {
		return nil, fmt.Errorf("an event of %v takes %d bytes, at most %d are possible: use a smaller --strlen", probe, t.Size, maxRecord)
	}
	return t, nil
}

// item is the value of an expression. One that is nothing but an argument is shown like it.
func (p *Probe) item(e *Expr) Item {
	item := Item{Name: e.src, Type: e.Type(), expr: e}
	if e.Root.Op == expr.Load {
		s := e.vars.sources[e.Root.Var]
		item.source = s
		switch {
		case s.kind == fromArg:
			item.isArg = true
			item.Described = p.Args[s.arg].Type
			item.err = p.Args[s.arg].Err
		case s.kind == fromText:
			item.isArg = true
			item.source.kind = fromArg
		}
	}
	return item
}

// Section returns what writes records to the ring, which are numbered with id.
func (t *Trace) Section(env *Env, ring *ebpf.Map, id uint32) (*Section, error) {
	b := newBuilder(env, t.probe)
	b.begin()
	if err := b.ofExecutable(); err != nil {
		return nil, err
	}
	if err := b.filter(t.filter, labelExit); err != nil {
		return nil, err
	}
	b.add(
		asm.FnKtimeGetNs.Call(),
		asm.Mov.Reg(regTime, asm.R0),
		asm.LoadMapPtr(asm.R1, ring.FD()),
		asm.Mov.Imm(asm.R2, int32(t.Size)),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnRingbufReserve.Call(),
		asm.JEq.Imm(asm.R0, 0, labelLost),
		asm.Mov.Reg(regRecord, asm.R0),
		asm.StoreMem(regRecord, recordTime, regTime, asm.DWord),
		asm.Mov.Imm(regMissing, 0),
		asm.StoreImm(regRecord, recordID, int64(id), asm.Word),
		asm.FnGetSmpProcessorId.Call(),
		asm.StoreMem(regRecord, recordCPU, asm.R0, asm.Word),
	)
	b.pidTgid()
	b.add(
		asm.StoreMem(regRecord, recordPID, asm.R0, asm.DWord),
		asm.Mov.Reg(asm.R1, regRecord),
		asm.Add.Imm(asm.R1, recordComm),
		asm.Mov.Imm(asm.R2, commSize),
		asm.FnGetCurrentComm.Call(),
	)
	for i := range t.Items {
		if err := b.item(&t.Items[i], i); err != nil {
			return nil, err
		}
	}
	b.add(
		asm.StoreMem(regRecord, recordMissing, regMissing, asm.DWord),
		asm.Mov.Reg(asm.R1, regRecord),
		asm.Mov.Imm(asm.R2, 0),
		asm.FnRingbufSubmit.Call(),
	)
	b.end()
	return b.section()
}

// item writes an item of a record, or adds it to those that are missing.
func (b *builder) item(item *Item, number int) error {
	missing, done := b.fresh("missing"), b.fresh("item")
	err := b.scope(func() error {
		b.fault = missing
		return b.itemValue(item, int16(item.Offset))
	})
	if err != nil {
		return err
	}
	b.jump(done)
	b.label(missing)
	b.constant(asm.R1, int64(1)<<number)
	b.add(asm.Or.Reg(regMissing, asm.R1))
	b.label(done)
	return nil
}

func (b *builder) itemValue(item *Item, offset int16) error {
	isText := item.Type.Kind == expr.String
	switch at, fetched := b.nums[item.source]; {
	case item.err != nil:
		b.jump(b.fault)
		return nil
	case isText && !item.isArg:
		return b.recordText(item, offset)
	case item.isArg && fetched:
		b.add(asm.LoadMem(asm.R0, asm.RFP, at, asm.DWord))
	case item.isArg:
		if err := b.argument(item.source.arg, b.fault); err != nil {
			return err
		}
	default:
		if err := b.fetch(item.expr, item.expr.Root); err != nil {
			return err
		}
		if err := (&compiler{b, item.expr}).value(item.expr.Root); err != nil {
			return err
		}
	}
	b.add(asm.StoreMem(regRecord, offset, asm.R0, asm.DWord))
	if item.Details != nil {
		at := b.alloc(8)
		b.add(asm.StoreMem(asm.RFP, at, asm.R0, asm.DWord))
		b.details(item.Details, at)
	}
	if isText {
		// The filter may have read a part of it, and the record gets more.
		at := b.alloc(8)
		b.add(asm.StoreMem(asm.RFP, at, asm.R0, asm.DWord))
		b.readText(regRecord, offset+textHeader, int32(item.TextSize+2), at)
		b.add(
			asm.StoreMem(regRecord, offset+8, asm.R0, asm.DWord),
			asm.JSLT.Imm(asm.R0, 0, b.fault),
		)
	}
	return nil
}

// recordText writes a text that is not an argument, which is comm or executable, to a record.
func (b *builder) recordText(item *Item, offset int16) error {
	if item.expr.Root.Op != expr.Load {
		return (&compiler{b, item.expr}).refuse(item.expr.Root, "a text must be a variable")
	}
	if item.source.kind == fromExecutable {
		if err := b.executable(regRecord, offset+textHeader, int32(item.TextSize+2), b.fault); err != nil {
			return err
		}
		b.add(asm.Mov.Imm(asm.R5, 1), asm.StoreMem(regRecord, offset, asm.R5, asm.DWord), asm.StoreMem(regRecord, offset+8, asm.R0, asm.DWord))
		return nil
	}
	if err := b.variable(item.source, b.fault); err != nil {
		return err
	}
	t := b.texts[item.source]
	b.add(asm.Mov.Imm(asm.R5, 1), asm.StoreMem(regRecord, offset, asm.R5, asm.DWord), asm.Mov.Imm(asm.R5, commSize), asm.StoreMem(regRecord, offset+8, asm.R5, asm.DWord))
	for i := int16(0); i < commSize; i += 8 {
		b.add(asm.LoadMem(asm.R0, asm.RFP, t.at+i, asm.DWord), asm.StoreMem(regRecord, offset+textHeader+i, asm.R0, asm.DWord))
	}
	return nil
}
