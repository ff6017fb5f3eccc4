package sdt

import (
	"debug/dwarf"
	"fmt"
	"math"

	"github.com/go-stapsdt/stapsdt/internal/debuginfo"
)

const (
	// maxTypes is the maximum number of types to which the types of a file's arguments may lead.
	maxTypes = 1 << 16
	// maxNesting is the maximum depth of structs and arrays in each other, and the maximum
	// number of typedefs and qualifiers before a type.
	maxNesting = 64
)

// types reads the types of one file. Each entry of DWARF becomes one Type, which is filled
// in later. So nothing here follows references from type to type by recursion: a hostile
// file could have millions in a row.
type types struct {
	entries debuginfo.Entries
	pointer int64
	seen    map[dwarf.Offset]*Type
	queue   []dwarf.Offset
	aliases map[*Type]alias
	err     error
}

// alias is a typedef, with a name, or a qualifier.
type alias struct {
	name string
	to   *Type
}

func newTypes(data *dwarf.Data, pointer int64) *types {
	return &types{
		entries: debuginfo.Entries{R: data.Reader(), Left: typeWork}, pointer: pointer,
		seen: map[dwarf.Offset]*Type{}, aliases: map[*Type]alias{},
	}
}

// of returns the type at an offset, which is complete after resolve.
func (t *types) of(at dwarf.Offset) *Type {
	if typ := t.seen[at]; typ != nil {
		return typ
	}
	typ := &Type{}
	if len(t.seen) == maxTypes {
		t.fail(fmt.Errorf("more than %d types", maxTypes))
		return typ
	}
	t.seen[at] = typ
	t.queue = append(t.queue, at)
	return typ
}

func (t *types) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// attr returns an attribute of an entry, or of the declaration that it completes.
func (t *types) attr(e *dwarf.Entry, a dwarf.Attr) any {
	for range 4 {
		if v := e.Val(a); v != nil {
			return v
		}
		at, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
		if !ok {
			if at, ok = e.Val(dwarf.AttrSpecification).(dwarf.Offset); !ok {
				return nil
			}
		}
		var err error
		if e, err = t.entries.At(at); e == nil || err != nil {
			return nil
		}
	}
	return nil
}

// resolve completes all types. A type that it cannot read stays a KindOther.
func (t *types) resolve() error {
	for len(t.queue) > 0 {
		at := t.queue[len(t.queue)-1]
		t.queue = t.queue[:len(t.queue)-1]
		if err := t.read(at, t.seen[at]); err != nil {
			t.fail(fmt.Errorf(".debug_info+%#x: type: %w", at, err))
		}
	}
	for typ := range t.aliases {
		t.follow(typ)
	}
	finite := map[*Type]bool{}
	for _, typ := range t.seen {
		t.contain(typ, finite, 0)
	}
	return t.err
}

// follow copies to an alias the type that it stands for. Real chains of aliases are short: a
// long chain, or one that leads back to itself, stands for nothing.
func (t *types) follow(typ *Type) {
	name := ""
	to := typ
	for range maxNesting {
		a, ok := t.aliases[to]
		if !ok {
			if name == "" {
				name = to.Name
			}
			*typ = *to
			typ.Name = name
			return
		}
		if name == "" {
			name = a.name
		}
		to = a.to
	}
	typ.Name = name
}

// contain makes a struct or an array opaque if it contains itself, or others too deep. It
// reports whether it left typ as it is.
func (t *types) contain(typ *Type, done map[*Type]bool, depth int) bool {
	if typ.Kind != KindStruct && typ.Kind != KindArray {
		return true
	}
	finite, seen := done[typ]
	if seen {
		return finite
	}
	done[typ] = false // until everything inside was seen
	finite = depth < maxNesting
	if finite && typ.Kind == KindArray {
		finite = t.contain(typ.Elem, done, depth+1)
		if size := typ.Elem.Size; typ.Size == 0 && size > 0 && typ.Count <= math.MaxInt64/size {
			typ.Size = typ.Count * size
		}
	}
	for i := 0; finite && i < len(typ.Fields); i++ {
		finite = t.contain(typ.Fields[i].Type, done, depth+1)
	}
	if done[typ] = finite; !finite {
		*typ = Type{Name: typ.Name, Size: typ.Size}
	}
	return finite
}

// short returns a name, or "" if there is none or it is too long to be one.
func short(name any) string {
	if s, _ := name.(string); len(s) <= maxName {
		return s
	}
	return ""
}

func (t *types) read(at dwarf.Offset, typ *Type) error {
	e, err := t.entries.At(at)
	if err != nil || e == nil {
		return err
	}
	typ.Name = short(e.Val(dwarf.AttrName))
	typ.Size, _ = e.Val(dwarf.AttrByteSize).(int64)
	switch e.Tag {
	case dwarf.TagBaseType:
		typ.Kind = baseKind(typ, e)
	case dwarf.TagEnumerationType:
		typ.Kind = KindInt
		if encoding, _ := e.Val(dwarf.AttrEncoding).(int64); encoding == encUnsigned ||
			encoding == encUnsignedChar {
			typ.Kind = KindUint
		}
	case dwarf.TagPointerType, dwarf.TagReferenceType, dwarf.TagRvalueReferenceType:
		typ.Kind, typ.Elem = KindPointer, t.target(e)
		if typ.Size == 0 {
			typ.Size = t.pointer
		}
	case dwarf.TagTypedef,
		dwarf.TagConstType,
		dwarf.TagVolatileType,
		dwarf.TagRestrictType,
		dwarf.TagAtomicType:
		t.aliases[typ] = alias{typ.Name, t.target(e)}
	case dwarf.TagArrayType:
		return t.readArray(e, typ)
	case dwarf.TagStructType, dwarf.TagClassType, dwarf.TagUnionType:
		return t.readStruct(e, typ)
	}
	return nil
}

// target returns the type that an entry refers to, or void if it refers to none.
func (t *types) target(e *dwarf.Entry) *Type {
	if at, ok := e.Val(dwarf.AttrType).(dwarf.Offset); ok {
		return t.of(at)
	}
	return &Type{Name: "void"}
}

// The encodings of DWARF's base types (section 7.8).
const (
	encBoolean      = 0x02
	encFloat        = 0x04
	encSigned       = 0x05
	encSignedChar   = 0x06
	encUnsigned     = 0x07
	encUnsignedChar = 0x08
	encUTF          = 0x10
)

func baseKind(typ *Type, e *dwarf.Entry) TypeKind {
	encoding, _ := e.Val(dwarf.AttrEncoding).(int64)
	if typ.Name == "char" && typ.Size == 1 {
		return KindChar
	}
	switch encoding {
	case encBoolean:
		return KindBool
	case encFloat:
		return KindFloat
	case encSigned, encSignedChar:
		return KindInt
	case encUnsigned, encUnsignedChar, encUTF:
		if typ.Name == "float64" && typ.Size == 8 || typ.Name == "float32" && typ.Size == 4 {
			return KindFloat // an argument of a Go probe
		}
		return KindUint
	}
	return KindOther
}

// readArray makes an array of several dimensions an array of arrays.
func (t *types) readArray(e *dwarf.Entry, typ *Type) error {
	elem := t.target(e)
	var counts []int64
	err := t.entries.Children(e, func(c *dwarf.Entry) {
		if c.Tag != dwarf.TagSubrangeType || len(counts) == maxNesting {
			return
		}
		count, ok := c.Val(dwarf.AttrCount).(int64)
		if !ok {
			if upper, ok := c.Val(dwarf.AttrUpperBound).(int64); ok && upper < 1<<62 {
				count = upper + 1
			}
		}
		counts = append(counts, max(count, 0))
	})
	for len(counts) > 1 {
		elem = &Type{Kind: KindArray, Elem: elem, Count: counts[len(counts)-1]}
		counts = counts[:len(counts)-1]
	}
	typ.Kind, typ.Elem = KindArray, elem
	if len(counts) > 0 {
		typ.Count = counts[0]
	}
	return err
}

func (t *types) readStruct(e *dwarf.Entry, typ *Type) error {
	typ.Kind = KindStruct
	return t.entries.Children(e, func(c *dwarf.Entry) {
		if c.Tag != dwarf.TagMember && c.Tag != dwarf.TagInheritance ||
			c.Val(dwarf.AttrExternal) != nil {
			return
		}
		f := Field{Type: t.target(c), Name: short(c.Val(dwarf.AttrName))}
		f.Offset, _ = c.Val(dwarf.AttrDataMemberLoc).(int64)
		if expr, ok := c.Val(dwarf.AttrDataMemberLoc).([]byte); ok {
			f.Offset, ok = plusConst(expr)
			if !ok {
				return
			}
		}
		if f.BitSize, _ = c.Val(dwarf.AttrBitSize).(int64); f.BitSize > 0 {
			at, ok := c.Val(dwarf.AttrDataBitOffset).(int64)
			if !ok {
				return // its notation depends on the byte order
			}
			f.BitOffset, f.Offset = at, at/8
		}
		typ.Fields = append(typ.Fields, f)
	})
}

// plusConst reads the offset of a field in DWARF 2: DW_OP_plus_uconst.
func plusConst(expr []byte) (int64, bool) {
	if len(expr) < 2 || len(expr) > 6 || expr[0] != 0x23 {
		return 0, false
	}
	n, rest, ok := debuginfo.ULEB(expr[1:])
	return int64(n), ok && len(rest) == 0
}
