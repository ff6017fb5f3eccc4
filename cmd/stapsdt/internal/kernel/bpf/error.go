//go:build linux

package bpf

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/cilium/ebpf/asm"
)

// dataType describes the string to which the second word of an error points.
var dataType = &sdt.Type{Kind: sdt.KindStruct, Size: 16, Fields: []sdt.Field{{Type: &sdt.Type{
	Kind: sdt.KindStruct, Size: 16, Fields: []sdt.Field{
		{Name: "str", Type: &sdt.Type{Kind: sdt.KindPointer, Size: 8}},
		{Name: "len", Type: &sdt.Type{Kind: sdt.KindInt, Size: 8}, Offset: 8},
	},
}}}}

// errorText reads the string to which the second word of an error points, if R0 is one of the types
// that have one.
func (b *builder) errorText(a *Arg, d *value.Details) {
	depth := b.depth
	defer func() { b.depth = depth }()
	addr := b.alloc(8)
	has, none, done := b.fresh("text"), b.fresh("none"), b.fresh("error")
	for _, t := range a.Texts {
		b.constant(asm.R1, int64(t))
		b.add(asm.JEq.Reg(asm.R0, asm.R1, has))
	}
	b.jump(none)
	b.label(has)
	b.fail(b.operand(*a.Data, *a, none))
	b.add(asm.StoreMem(asm.RFP, addr, asm.R0, asm.DWord))
	b.details(d, addr)
	b.jump(done)
	b.label(none)
	b.add(asm.Mov.Imm(asm.R0, 1), asm.StoreMem(regRecord, int16(d.Offset)-8, asm.R0, asm.DWord))
	b.label(done)
}
