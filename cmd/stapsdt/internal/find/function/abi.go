//go:build linux

package function

import (
	"debug/elf"
	"errors"
	"fmt"
	"reflect"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// abi describes where Go functions take arguments and leave results on an architecture. It is
// ABIInternal of cmd/compile/abi-internal.md.
type abi struct {
	integers []string // names of registers, as in package sdt
	floats   int      // the number of registers for floats
	float    string   // the prefix of their names
	stack    string   // the name of the stack pointer
	memory   string   // the format of an operand on the stack
}

// maxRegisters is the maximum number of registers that a value takes on any architecture.
const maxRegisters = 32

// wordSize is the size of a register, and of the return address below the arguments on the stack,
// which arm64 leaves room for.
const wordSize = 8

var abis = map[elf.Machine]*abi{
	elf.EM_X86_64: {
		integers: []string{"%rax", "%rbx", "%rcx", "%rdi", "%rsi", "%r8", "%r9", "%r10", "%r11"}, floats: 15, float: "%xmm",
		stack: "%rsp", memory: "%d(%%rsp)",
	},
	elf.EM_AARCH64: {
		integers: []string{"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15"},
		floats:   16, float: "v",
		stack: "sp", memory: "[sp, %d]",
	},
}

func whole(register string) sdt.Register {
	return sdt.Register{Name: register, Full: register, Bits: 64}
}

// place is the place of a parameter: in registers, or on the stack.
type place struct {
	inRegisters     bool
	integer, float_ int   // the index of its first register of each kind
	offset          int64 // the offset on the stack
}

// sequence assigns places to parameters or results, in their order.
type sequence struct {
	*abi
	place // of the next value
}

// assign returns the place of the next parameter. A parameter that does not fit into the remaining
// registers is on the stack, and leaves them to the next one.
func (s *sequence) assign(t *goType) place {
	integers, floats, ok := t.registers()
	if ok && t.size > 0 && s.integer+integers <= len(s.integers) && s.float_+floats <= s.floats {
		p := s.place
		p.inRegisters = true
		s.integer, s.float_ = s.integer+integers, s.float_+floats
		return p
	}
	s.offset = align(s.offset, t.align)
	p := place{offset: s.offset}
	s.offset += t.size
	return p
}

func align(n, to int64) int64 {
	if to <= 1 {
		return n
	}
	return (n + to - 1) / to * to
}

// registers returns the number of registers that a value takes, or false if it is never in
// registers.
func (t *goType) registers() (integers, floats int, ok bool) {
	if t.err != nil {
		return 0, 0, false
	}
	switch t.kind {
	case reflect.Float32, reflect.Float64:
		return 0, 1, true
	case reflect.Complex64, reflect.Complex128:
		return 0, 2, true
	case reflect.String, reflect.Interface:
		return 2, 0, true
	case reflect.Slice:
		return 3, 0, true
	case reflect.Array:
		if t.count == 0 {
			return 0, 0, true
		}
		if t.count > 1 {
			return 0, 0, false
		}
		return t.elem.registers()
	case reflect.Struct:
		for _, f := range t.fields {
			i, fl, ok := f.typ.registers()
			if !ok {
				return 0, 0, false
			}
			integers, floats = integers+i, floats+fl
		}
		return integers, floats, true
	}
	return 1, 0, true
}

// dictionary is the hidden parameter of a generic function. It precedes all parameters except the
// receiver.
var dictionary = &goType{kind: reflect.UnsafePointer, size: wordSize, align: wordSize}

// places holds the places of all parameters and results of a function.
type places struct {
	params, results []place
	// size is the size that the compiler notes: of the parameters and results on the stack, and of
	// the space to which arguments in registers are spilled.
	size int64
}

func (a *abi) places(params, results []*goType) places {
	var p places
	in := sequence{abi: a}
	spilled := int64(0)
	for _, t := range params {
		at := in.assign(t)
		if at.inRegisters {
			spilled = align(spilled, t.align) + t.size
		}
		p.params = append(p.params, at)
	}
	out := sequence{a, place{offset: align(in.offset, wordSize)}}
	for _, t := range results {
		p.results = append(p.results, out.assign(t))
	}
	p.size = align(align(out.offset, wordSize)+spilled, wordSize)
	return p
}

var errFloat = errors.New("the kernel does not show the registers of floats")

// reader converts a parameter to arguments that a tracer reads.
type reader struct {
	*abi
	place
	// pointer is the operand of the pointer to the struct that is read, or nil for a parameter
	// itself.
	pointer *sdt.Operand
	// local is set for a local variable. If it is on the heap, it is read through the pointer.
	local        *local
	args, fields []Arg
	lost         []string // the names of arguments of which a part is nowhere
	unsure       bool     // whether the arguments may have old values
	errors       []uint64 // the types of errors that begin with their text
}

const (
	// maxLeaves is the maximum number of values that are read from all parameters of a function.
	maxLeaves = 48
	// maxFields is the maximum number of fields that are reached through pointers of its
	// parameters.
	maxFields = 512
)

// word returns the operand of the next word of the value, which is at the given offset in the
// value.
func (r *reader) word(offset int64) sdt.Operand {
	switch {
	case r.pointer != nil:
		return r.inStruct(offset)
	case r.local != nil:
		return r.local.operand(r.abi, offset)
	case !r.inRegisters:
		return r.onStack(wordSize + r.offset + offset)
	}
	register := r.integers[r.integer]
	r.integer++
	return sdt.Operand{Kind: sdt.OperandRegister, Base: whole(register), Text: register}
}

// onStack returns an operand in memory, by its offset from the stack pointer.
func (a *abi) onStack(at int64) sdt.Operand {
	return sdt.Operand{
		Kind: sdt.OperandMemory, Base: whole(a.stack), Displacement: at,
		Text: fmt.Sprintf(a.memory, at),
	}
}

// vector returns the operand of a register of floats.
func vector(register string) sdt.Operand {
	return sdt.Operand{
		Kind: sdt.OperandVector, Base: sdt.Register{Name: register, Full: register, Bits: 128},
		Text: register,
	}
}

// inStruct returns an operand in the struct to which the pointer points.
func (r *reader) inStruct(offset int64) sdt.Operand {
	return sdt.Operand{
		Kind: sdt.OperandMemory, Displacement: offset,
		Text: fmt.Sprintf("%d(*%s)", offset, r.pointer.Text),
	}
}

// floatAt returns the operand of a float.
func (r *reader) floatAt(offset int64) sdt.Operand {
	if r.pointer != nil || r.local != nil || !r.inRegisters {
		return r.word(offset)
	}
	r.float_++
	return vector(fmt.Sprintf("%s%d", r.float, r.float_-1))
}

func (r *reader) add(a Arg) {
	if a.Err == nil && a.isLost() {
		r.lost = append(r.lost, a.Name)
		return
	}
	if r.unsure {
		a.Name = value.Unsure(a.Name)
	}
	switch a.Pointer = r.pointer; {
	case r.pointer != nil && r.local == nil && len(r.fields) < maxFields:
		r.fields = append(r.fields, a)
	case (r.pointer == nil || r.local != nil) && len(r.args) < maxLeaves:
		r.args = append(r.args, a)
	}
}

// isLost reports whether a part of a local variable is nowhere.
func (a *Arg) isLost() bool {
	lost := func(o *sdt.Operand) bool { return o != nil && o.Kind == sdt.OperandUnknown }
	if lost(a.Data) { // the text of an error is missing then
		a.Data, a.Texts = nil, nil
	}
	return lost(&a.Operand) || lost(a.Length) || lost(a.Ext)
}

// through adds the fields of the struct to which the pointer at an operand points. The value of a
// field that is a pointer is the address.
func (r *reader) through(name string, pointer sdt.Operand, t *goType) {
	isLost := pointer.Kind == sdt.OperandUnknown
	if t == nil || t.kind != reflect.Struct || r.pointer != nil || isLost {
		return
	}
	of := r.local
	r.pointer, r.local = &pointer, nil
	r.read(name, t, 0)
	r.pointer, r.local = nil, of
}

// capacity adds the capacity of a slice to the fields, because few users ask for it. Those of
// slices in the target of a pointer are left out.
func (r *reader) capacity(name string, at sdt.Operand) {
	if r.pointer == nil && at.Kind != sdt.OperandUnknown && len(r.fields) < maxFields {
		one := sdt.Arg{Name: "cap(" + name + ")", Type: intType, Size: wordSize, Signed: true}
		if r.unsure {
			one.Name = value.Unsure(one.Name)
		}
		one.Operand = at
		r.fields = append(r.fields, Arg{Arg: one, Capacity: true})
	}
}

// read adds the arguments of a value of type t at an offset in the parameter.
func (r *reader) read(name string, t *goType, offset int64) {
	one := sdt.Arg{Name: name, Type: t.described(), Size: wordSize}
	if t.err != nil {
		one.Err = t.err
		r.add(Arg{Arg: one})
		return
	}
	switch t.kind {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Uintptr:
		one.Size, one.Signed = int(t.size), one.Type.Kind == sdt.KindInt
		one.Operand = r.word(offset)
		r.add(Arg{Arg: one, Constants: t.constants})
	case reflect.Float32, reflect.Float64:
		one.Size, one.Float, one.Operand = int(t.size), true, r.floatAt(offset)
		r.add(Arg{Arg: one})
	case reflect.Complex64, reflect.Complex128:
		one.Operand, one.Err = r.floatAt(offset), errFloat
		r.floatAt(offset)
		r.add(Arg{Arg: one})
	case reflect.String:
		one.Operand = r.word(offset)
		length := r.word(offset + wordSize)
		r.add(Arg{Arg: one, Length: &length})
	case reflect.Slice:
		r.slice(one, t, offset)
	case reflect.Interface:
		one.Operand = r.word(offset)
		data := r.word(offset + wordSize)
		dynamic := Arg{Arg: one, Dynamic: true, Methods: t.methods}
		if t.name == errorName && len(r.errors) > 0 {
			dynamic.Data, dynamic.Texts = &data, r.errors
		}
		r.add(dynamic)
	case reflect.Struct:
		r.structure(one, t, offset)
	case reflect.Array:
		r.array(one, t, offset)
	default:
		one.Operand = r.word(offset)
		r.add(Arg{Arg: one})
		if t.kind == reflect.Pointer {
			r.through(name, one.Operand, t.elem)
		}
	}
}

// slice adds the bytes of a slice, or its length, and its capacity.
func (r *reader) slice(one sdt.Arg, t *goType, offset int64) {
	name := one.Name
	first, length := r.word(offset), r.word(offset+wordSize)
	if t.bytes {
		one.Operand = first
		r.add(Arg{Arg: one, Length: &length})
	} else {
		one.Name, one.Type = "len("+name+")", intType
		one.Operand, one.Signed = length, true
		r.add(Arg{Arg: one})
	}
	r.capacity(name, r.word(offset+2*wordSize))
}

// structure adds the time of a time.Time, or the fields of another struct.
func (r *reader) structure(one sdt.Arg, t *goType, offset int64) {
	if value.IsTime(one.Type) {
		one.Type, one.Signed = momentType, true
		one.Operand = r.word(offset)
		ext := r.word(offset + wordSize)
		r.word(offset + 2*wordSize)
		r.add(Arg{Arg: one, Ext: &ext})
		return
	}
	for _, f := range t.fields {
		// It has no name, and takes no register.
		if (r.pointer != nil || r.local != nil) && f.name == "_" {
			continue
		}
		r.read(one.Name+"."+f.name, f.typ, offset+f.offset)
	}
}

// array adds the element of an array of one, or the bytes of an array of bytes.
func (r *reader) array(one sdt.Arg, t *goType, offset int64) {
	switch {
	case t.count == 1:
		r.read(one.Name+"[0]", t.elem, offset)
	case t.count > 1 && t.bytes:
		one.Operand, one.Type = r.word(offset), bytesOf(t.name)
		length := sdt.Operand{Kind: sdt.OperandConstant, Displacement: t.count}
		length.Text = fmt.Sprintf("$%d", t.count)
		r.add(Arg{Arg: one, Length: &length, InPlace: true})
	case t.count > 1:
		one.Err = errors.New("elements of arrays are not read")
		r.add(Arg{Arg: one})
	}
}
