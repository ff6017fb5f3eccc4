//go:build linux && (amd64 || arm64)

package bpf

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/assert"
)

// TestKeyHasLayouts: probes of two versions of a program share a BPF program only if it reads
// the same of both. The names of their types are the same.
func TestKeyHasLayouts(t *testing.T) {
	integer := &sdt.Type{Name: "int64", Kind: sdt.KindInt, Size: 8}
	char := &sdt.Type{Name: "char", Kind: sdt.KindChar, Size: 1}
	request := func(fields ...sdt.Field) *sdt.Type {
		return &sdt.Type{Kind: sdt.KindPointer, Size: 8, Elem: &sdt.Type{Name: "main.Req", Kind: sdt.KindStruct, Size: 24, Fields: fields}}
	}
	level := func(kind sdt.TypeKind) *sdt.Type { return &sdt.Type{Name: "main.Level", Kind: kind, Size: 8} }
	pointer := func(to *sdt.Type) *sdt.Type { return &sdt.Type{Kind: sdt.KindPointer, Size: 8, Elem: to} }
	inner := func(kind sdt.TypeKind) *sdt.Type {
		return &sdt.Type{Name: "main.Inner", Kind: sdt.KindStruct, Size: 8, Fields: []sdt.Field{{Name: "x", Type: level(kind)}}}
	}
	keys := map[string]int{}
	for i, of := range []*sdt.Type{
		request(sdt.Field{Name: "A", Type: integer}, sdt.Field{Name: "B", Type: integer, Offset: 8}),
		request(sdt.Field{Name: "New", Type: integer}, sdt.Field{Name: "A", Type: integer, Offset: 8}, sdt.Field{Name: "B", Type: integer, Offset: 16}),
		request(sdt.Field{Name: "A", Type: integer, Offset: 8}, sdt.Field{Name: "B", Type: integer}),
		request(sdt.Field{Name: "A", Type: integer}, sdt.Field{Name: "B", Type: pointer(char), Offset: 8}),
		request(sdt.Field{Name: "A", Type: integer}, sdt.Field{Name: "B", Type: pointer(integer), Offset: 8}),
		request(sdt.Field{Name: "A", Type: integer, BitSize: 3}, sdt.Field{Name: "B", Type: integer, Offset: 8}),
		request(sdt.Field{Name: "A", Type: inner(sdt.KindInt)}),
		request(sdt.Field{Name: "A", Type: inner(sdt.KindFloat)}),
		level(sdt.KindUint), level(sdt.KindFloat), level(sdt.KindBool), nil,
	} {
		p := Probe{Provider: "p", Name: "n", Args: []Arg{{Arg: sdt.Arg{Size: 8, Type: of}}}}
		key := p.Key()
		before, same := keys[key]
		assert.False(t, same, "the types %d and %d have the same key, %s", before, i, key)
		keys[key] = i
	}
	list := &sdt.Type{Name: "main.List", Kind: sdt.KindStruct, Size: 8}
	list.Fields = []sdt.Field{{Name: "next", Type: pointer(list)}} // ends, although the type refers to itself
	p := Probe{Args: []Arg{{Arg: sdt.Arg{Size: 8, Type: pointer(list)}}}}
	assert.NotEmpty(t, p.Key(), "no key")
}

// TestArgUnits: an argument counts what its type counts, be it signed or not, if it has the type's size.
func TestArgUnits(t *testing.T) {
	defer func(was kind.Row) { kind.Rows[kind.Pointer] = was }(kind.Rows[kind.Pointer])
	kind.Rows[kind.Pointer] = kind.Row{Class: kind.Uint, Unit: kind.Address, Size: 4, Sent: "shop.Handle"}
	counted := 0
	for _, row := range kind.Rows {
		if row.Unit == kind.None {
			continue
		}
		of := sdt.Arg{Size: row.Size, Type: &sdt.Type{Name: row.Sent, Kind: sdt.KindInt}}
		if row.Class == kind.Uint {
			of.Type.Kind = sdt.KindUint
		}
		assert.Equal(t, expr.Type{Kind: row.Class, Size: row.Size, Unit: row.Unit}, ArgType(of))
		of.Size /= 2
		assert.Equal(t, kind.None, ArgType(of).Unit, "%d bytes of %s", of.Size, row.Sent)
		counted++
	}
	assert.GreaterOrEqual(t, counted, 3)
}
