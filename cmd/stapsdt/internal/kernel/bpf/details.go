//go:build linux

package bpf

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/cilium/ebpf/asm"
)

const (
	maxDetails     = 512
	maxDetailTexts = 8
	maxDetailDepth = 4
)

// details lays out the struct or the Go string that an argument points to, if there is one, at an
// offset of the record.
func details(t *sdt.Type, offset, textSize int) (d *value.Details, size int) {
	if t == nil || t.Kind != sdt.KindPointer || t.Elem == nil || t.Elem.Kind != sdt.KindStruct ||
		t.Elem.Size <= 0 ||
		len(t.Elem.Fields) == 0 {
		return nil, 0
	}
	return layDetails(t.Elem, offset, textSize)
}

// layDetails lays out a struct of a type at an offset of the record.
func layDetails(t *sdt.Type, offset, textSize int) (d *value.Details, size int) {
	d = &value.Details{Type: t, Offset: offset + 8, Size: int(min(t.Size, maxDetails))}
	size = 8 + (d.Size+7)&^7
	addTexts(d, t, 0, 0)
	for i := range d.Texts {
		text := &d.Texts[i]
		text.Offset, text.TextSize = offset+size+8, textSize
		size += 8 + (textSize+2+7)&^7
	}
	return d, size
}

// addTexts finds the strings of a value of a type at an offset of the whole. The header of a Go
// string is one value: if it is incomplete, its address is not followed as that of a C string.
func addTexts(d *value.Details, t *sdt.Type, at int64, depth int) {
	if t == nil || at < 0 || at+8 > int64(d.Size) || len(d.Texts) == maxDetailTexts {
		return
	}
	switch {
	case at%8 == 0 && t.IsString():
		d.Texts = append(d.Texts, value.DetailText{At: int(at)})
	case value.IsGoString(t):
		if at%8 == 0 && at+16 <= int64(d.Size) {
			text := value.DetailText{At: int(at), IsGo: true, IsBytes: value.IsBytes(t)}
			d.Texts = append(d.Texts, text)
		}
	case t.Kind == sdt.KindStruct && depth <= maxDetailDepth:
		for _, f := range t.Fields {
			addTexts(d, f.Type, at+f.Offset, depth+1)
		}
	case t.Kind == sdt.KindArray && (t.Elem.IsString() || value.IsGoString(t.Elem)):
		for i := range min(t.Count, maxDetailTexts) {
			addTexts(d, t.Elem, at+i*t.Elem.Size, depth+1)
		}
	}
}

// details reads the struct at the address on the stack.
func (b *builder) details(d *value.Details, addr int16) {
	read := b.fresh("struct")
	at := int16(d.Offset)
	b.add(asm.Mov.Imm(asm.R0, 0))
	for _, t := range d.Texts { // no string was read yet
		b.add(asm.StoreMem(regRecord, int16(t.Offset)-8, asm.R0, asm.DWord))
	}
	b.add(asm.Mov.Imm(asm.R2, int32(d.Size)))
	b.readBytes(regRecord, at, addr)
	b.add(asm.StoreMem(regRecord, at-8, asm.R0, asm.DWord), asm.JNE.Imm(asm.R0, 0, read))
	for _, t := range d.Texts {
		b.detail(d, t)
	}
	b.label(read)
}

// detail reads a string of a struct in the record.
func (b *builder) detail(d *value.Details, t value.DetailText) {
	depth := b.depth
	defer func() { b.depth = depth }()
	done := b.fresh("detail")
	at, field := int16(t.Offset), int16(d.Offset+t.At)
	addr := b.alloc(8)
	b.add(
		asm.LoadMem(asm.R0, regRecord, field, asm.DWord),
		asm.StoreMem(asm.RFP, addr, asm.R0, asm.DWord),
	)
	if !t.IsGo {
		b.readText(regRecord, at, int32(t.TextSize+2), addr)
		b.add(asm.StoreMem(regRecord, at-8, asm.R0, asm.DWord))
		return
	}
	b.atMost(regRecord, field+8, int32(t.TextSize))
	b.readBytes(regRecord, at, addr)
	b.add(
		asm.StoreMem(regRecord, at-8, asm.R0, asm.DWord),
		asm.JNE.Imm(asm.R0, 0, done),
		asm.LoadMem(asm.R0, regRecord, field+8, asm.DWord),
		asm.StoreMem(regRecord, at-8, asm.R0, asm.DWord),
	)
	b.label(done)
}
