//go:build linux

package function

import (
	"cmp"
	"debug/dwarf"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/debuginfo"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// goType is a Go type as DWARF describes it.
type goType struct {
	name        string
	kind        reflect.Kind
	size, align int64
	count       int64   // the length of an array
	elem        *goType // the element of an array, or the target of a pointer that was followed
	fields      []goField
	methods     bool // an interface with methods
	bytes       bool // a slice or an array of bytes
	constants   value.Constants
	parts       int       // the number of types that it consists of, with itself
	err         error     // why fields or elements are unknown, or nil
	shown       *sdt.Type // the result of described
}

type goField struct {
	name   string
	typ    *goType
	offset int64
}

const (
	attrKind = dwarf.Attr(0x2900) // DW_AT_go_kind, a reflect.Kind
	attrElem = dwarf.Attr(0x2902) // DW_AT_go_elem, the element of a slice
	// maxNesting limits how deep names, structs and arrays are nested.
	maxNesting = 64
	// maxParts limits the types that a type consists of. The largest structs of real programs
	// consist of some thousand.
	maxParts = 1 << 14
	// maxName is the maximum length of a name in bytes. Longer names are cut.
	maxName = 256
	// maxSize is the maximum size of a type.
	maxSize = 1 << 30
)

// kindMask removes flags that older releases keep in the same byte.
const kindMask = 1<<5 - 1

var (
	errType    = errors.New("a type is not described")
	errNesting = fmt.Errorf("%w: it is nested too deeply", errType)
	errParts   = fmt.Errorf("%w: it has too many fields", errType)
)

// types reads types within a work budget, each of them once.
type types struct {
	entries debuginfo.Entries
	known   map[asked]*answer
	// integers are the defined types of integers.
	integers map[dwarf.Offset]value.Constants
	errorAt  dwarf.Offset // the offset of the type error, once it was read
}

// reach selects the pointers that are followed to the types of their targets.
type reach int

const (
	toNone   reach = iota
	toValue        // the value itself, if it is a pointer
	toFields       // the value and its fields
)

// asked identifies a type, and how much of it is read.
type asked struct {
	at     dwarf.Offset
	follow reach
}

// answer is the result of reading a type.
type answer struct {
	*goType
	err error
}

// read reads the type at an offset, and the types to which pointers within the reach point.
func (t *types) read(at dwarf.Offset, follow reach, depth int) (*goType, error) {
	if depth > maxNesting {
		return nil, errNesting
	}
	key := asked{at, follow}
	known := t.known[key]
	if known == nil {
		known = &answer{err: errNesting} // until it is read, because no type contains itself
		t.known[key] = known
		known.goType, known.err = t.readNew(at, follow, depth)
		if errors.Is(known.err, errNesting) {
			delete(t.known, key) // it may be nested less deep elsewhere
		}
	}
	return known.goType, known.err
}

func (t *types) readNew(at dwarf.Offset, follow reach, depth int) (*goType, error) {
	e, err := t.entries.At(at)
	if err != nil {
		return nil, err
	}
	if e == nil {
		return nil, errType
	}
	typ := &goType{name: nameOf(e)}
	typ.size, _ = e.Val(dwarf.AttrByteSize).(int64)
	kind, isGo := e.Val(attrKind).(int64)
	typ.kind = reflect.Kind(kind & kindMask)
	to, hasType := e.Val(dwarf.AttrType).(dwarf.Offset)
	if e.Tag == dwarf.TagTypedef && hasType {
		return t.named(typ, at, to, follow, depth)
	}
	if !isGo && e.Tag == dwarf.TagPointerType && !hasType { // unsafe.Pointer, or defined as it
		typ.kind, isGo = reflect.UnsafePointer, true
	}
	if !isGo {
		return nil, fmt.Errorf("%w as Go's: %s", errType, typ.name)
	}
	if isPointer(typ.kind) {
		typ.size = wordSize
	}
	typ.constants = t.constants(at, typ)
	switch typ.kind {
	case reflect.Pointer:
		typ.size = wordSize
		if follow >= toValue && hasType {
			typ.elem, _ = t.read(to, toNone, depth+1) // without it, the address is shown
		}
	case reflect.Struct:
		err = t.structure(e, typ, follow, depth)
	case reflect.Array:
		err = t.array(e, typ, to, depth)
	case reflect.Slice:
		if elem, ok := e.Val(attrElem).(dwarf.Offset); ok {
			typ.bytes, err = t.isByte(elem)
		}
	case reflect.Interface:
		typ.size = 2 * wordSize
	}
	if err != nil {
		return nil, err
	}
	return typ, typ.check()
}

// isPointer reports whether values of a kind are pointers whose targets are not read.
func isPointer(kind reflect.Kind) bool {
	return kind == reflect.UnsafePointer || kind == reflect.Func || kind == reflect.Map ||
		kind == reflect.Chan
}

// named reads the type for which a name stands. The name runtime.iface identifies an interface with
// methods.
func (t *types) named(typ *goType, at, to dwarf.Offset, follow reach, depth int) (*goType, error) {
	if typ.kind == reflect.Interface {
		for range maxNesting {
			e, err := t.entries.At(to)
			if err != nil || e == nil {
				return nil, errors.Join(errType, err)
			}
			switch nameOf(e) {
			case "runtime.iface":
				typ.methods = true
			case "runtime.eface":
			default:
				next, ok := e.Val(dwarf.AttrType).(dwarf.Offset)
				if !ok {
					return nil, fmt.Errorf("%w: %s", errType, typ.name)
				}
				to = next
				continue
			}
			typ.size = 2 * wordSize
			if typ.name == errorName {
				t.errorAt = at
			}
			return typ, typ.check()
		}
		return nil, errType
	}
	if isPointer(typ.kind) {
		typ.size = wordSize
		return typ, typ.check()
	}
	inner, err := t.read(to, follow, depth+1)
	if err != nil {
		return nil, err
	}
	if typ.kind == reflect.Invalid {
		typ.kind = inner.kind
	}
	if typ.kind != inner.kind {
		return nil, fmt.Errorf("%w: %s", errType, typ.name)
	}
	name := typ.name
	*typ = *inner
	typ.shown = nil
	if !strings.HasPrefix(name, ".") { // .param0 is the first type parameter
		typ.name = name
	}
	return typ, nil
}

func (t *types) structure(e *dwarf.Entry, typ *goType, follow reach, depth int) error {
	type member struct {
		name   string
		offset int64
		at     dwarf.Offset
	}
	var members []member
	var wrong error
	err := t.entries.Children(e, func(c *dwarf.Entry) {
		at, ok := c.Val(dwarf.AttrType).(dwarf.Offset)
		offset, isOffset := c.Val(dwarf.AttrDataMemberLoc).(int64)
		if c.Children || c.Tag != dwarf.TagMember || !ok || !isOffset {
			wrong = fmt.Errorf("%w: %s", errType, typ.name)
		}
		members = append(members, member{nameOf(c), offset, at})
	})
	if err = cmp.Or(err, wrong); err != nil {
		return err
	}
	for _, m := range members {
		field, err := t.read(m.at, max(follow-1, toNone), depth+1)
		if err != nil {
			return err
		}
		typ.fields = append(typ.fields, goField{m.name, field, m.offset})
	}
	return nil
}

func (t *types) array(e *dwarf.Entry, typ *goType, to dwarf.Offset, depth int) (err error) {
	typ.count = -1
	err = t.entries.Children(e, func(c *dwarf.Entry) {
		if n, ok := c.Val(dwarf.AttrCount).(int64); ok && c.Tag == dwarf.TagSubrangeType &&
			typ.count < 0 {
			typ.count = n
		}
	})
	if err != nil {
		return err
	}
	if typ.count < 0 {
		return fmt.Errorf("%w: %s", errType, typ.name)
	}
	typ.elem, err = t.read(to, toNone, depth+1)
	typ.bytes = err == nil && typ.elem.kind == reflect.Uint8
	return err
}

// isByte reports whether the type at an offset is a type of bytes. Other types are not read: the
// elements of a slice may have the type that contains it.
func (t *types) isByte(at dwarf.Offset) (bool, error) {
	for range maxNesting {
		e, err := t.entries.At(at)
		if err != nil || e == nil {
			return false, err
		}
		to, ok := e.Val(dwarf.AttrType).(dwarf.Offset)
		if e.Tag != dwarf.TagTypedef || !ok {
			kind, _ := e.Val(attrKind).(int64)
			size, _ := e.Val(dwarf.AttrByteSize).(int64)
			return reflect.Kind(kind&kindMask) == reflect.Uint8 && size == 1, nil
		}
		at = to
	}
	return false, nil
}

// kinds holds the sizes of the kinds whose types all have the same size, and how package sdt
// describes the kinds.
var kinds = map[reflect.Kind]struct {
	size int64
	kind sdt.TypeKind
}{
	reflect.Bool: {1, sdt.KindBool},
	reflect.Int:  {8, sdt.KindInt}, reflect.Int8: {1, sdt.KindInt}, reflect.Int16: {2, sdt.KindInt},
	reflect.Int32: {4, sdt.KindInt},
	reflect.Int64: {8, sdt.KindInt}, reflect.Uint: {8, sdt.KindUint},
	reflect.Uint8:  {1, sdt.KindUint},
	reflect.Uint16: {2, sdt.KindUint},
	reflect.Uint32: {4, sdt.KindUint}, reflect.Uint64: {8, sdt.KindUint},
	reflect.Uintptr: {8, sdt.KindUint},
	reflect.Float32: {4, sdt.KindFloat},
	reflect.Float64: {8, sdt.KindFloat}, reflect.Complex64: {8, sdt.KindOther},
	reflect.Complex128: {16, sdt.KindOther},
	reflect.String:     {16, sdt.KindStruct}, reflect.Slice: {24, sdt.KindStruct},
	reflect.Interface: {16, sdt.KindOther},
	reflect.Pointer:   {8, sdt.KindPointer}, reflect.UnsafePointer: {8, sdt.KindPointer},
	reflect.Func: {8, sdt.KindPointer},
	reflect.Map:  {8, sdt.KindPointer}, reflect.Chan: {8, sdt.KindPointer},
	reflect.Array: {0, sdt.KindArray}, reflect.Struct: {0, sdt.KindStruct},
}

// check sets the alignment, and returns an error if the type is not a Go type.
func (t *goType) check() error {
	wrong := fmt.Errorf("%w: %s", errType, t.name)
	kind, known := kinds[t.kind]
	t.parts = 1
	for _, f := range t.fields {
		t.parts += f.typ.parts
	}
	if t.elem != nil {
		t.parts += t.elem.parts
	}
	if t.parts > maxParts {
		return errParts
	}
	switch {
	case !known || kind.size > 0 && t.size != kind.size || t.size < 0 || t.size > maxSize:
		return wrong
	case kind.size > 0:
		t.align = min(t.size, wordSize)
		if t.kind == reflect.Complex64 {
			t.align = 4
		}
	case t.kind == reflect.Array:
		t.align = t.elem.align
		if t.elem.size > 0 && t.count > maxSize/t.elem.size || t.size != t.count*t.elem.size {
			return wrong
		}
	case t.kind == reflect.Struct:
		t.align = 1
		end := int64(0)
		for _, f := range t.fields {
			t.align = max(t.align, f.typ.align)
			if f.offset < end || f.offset+f.typ.size > t.size {
				return wrong
			}
			end = f.offset + f.typ.size
		}
	}
	return nil
}

// opaque returns a type with only a size, for a struct or an array that is too large for
// registers. Otherwise it returns nil. err is the reason why the type could not be read.
func (t *types) opaque(at dwarf.Offset, err error) *goType {
	name := ""
	for range maxNesting {
		e, readErr := t.entries.At(at)
		if readErr != nil || e == nil {
			return nil
		}
		name = cmp.Or(name, nameOf(e))
		kind, _ := e.Val(attrKind).(int64)
		size, _ := e.Val(dwarf.AttrByteSize).(int64)
		to, hasType := e.Val(dwarf.AttrType).(dwarf.Offset)
		switch k := reflect.Kind(kind & kindMask); {
		case e.Tag == dwarf.TagTypedef && hasType:
			at = to
		case k != reflect.Struct && k != reflect.Array:
			return nil
		case size > maxRegisters*wordSize && size <= maxSize:
			return &goType{name: name, kind: k, size: size, align: 1, count: 1, err: err}
		default:
			return nil
		}
	}
	return nil
}

func nameOf(e *dwarf.Entry) string {
	name, _ := e.Val(dwarf.AttrName).(string)
	name = spec.Unescape(name)
	if len(name) > maxName {
		name = name[:maxName] + "…"
	}
	return name
}

var (
	intType  = &sdt.Type{Name: "int", Kind: sdt.KindInt, Size: 8}
	charType = &sdt.Type{Name: "char", Kind: sdt.KindChar, Size: 1}
	textType = &sdt.Type{Kind: sdt.KindPointer, Size: 8, Elem: charType}
	byteType = &sdt.Type{Name: value.ByteName, Kind: sdt.KindUint, Size: 1}
)

// momentType describes a time.Time that is read as a number of nanoseconds since 1970.
var momentType = &sdt.Type{Name: kind.TimeName, Kind: sdt.KindInt, Size: wordSize}

// bytesOf returns the type of the bytes of a slice or an array, for value.IsBytes.
func bytesOf(name string) *sdt.Type {
	return &sdt.Type{Name: name, Kind: sdt.KindStruct, Size: 3 * wordSize, Fields: []sdt.Field{
		{Name: "bytes", Type: &sdt.Type{Kind: sdt.KindPointer, Size: wordSize, Elem: byteType}},
		{Name: "len", Type: intType, Offset: wordSize},
	}}
}

// described returns the type as package sdt describes it, for output.
func (t *goType) described() *sdt.Type {
	if t.shown == nil {
		t.shown = t.describe()
	}
	return t.shown
}

func (t *goType) describe() *sdt.Type {
	d := &sdt.Type{Name: t.name, Size: t.size, Kind: kinds[t.kind].kind}
	switch t.kind {
	case reflect.String:
		d.Fields = []sdt.Field{
			{Name: "str", Type: textType},
			{Name: "len", Type: intType, Offset: wordSize},
		}
	case reflect.Slice:
		if t.bytes {
			return bytesOf(t.name)
		}
		d.Fields = []sdt.Field{{Name: "len", Type: intType, Offset: wordSize}}
	case reflect.Array:
		d.Count = t.count
	case reflect.Struct:
		for _, f := range t.fields {
			d.Fields = append(
				d.Fields, sdt.Field{Name: f.name, Type: f.typ.described(), Offset: f.offset},
			)
		}
	}
	switch {
	case t.kind == reflect.Array && t.bytes:
		d.Elem = byteType
	case t.elem != nil:
		d.Elem = t.elem.described()
	case d.Kind == sdt.KindPointer:
		d.Elem = &sdt.Type{Kind: sdt.KindOther}
	}
	return d
}
