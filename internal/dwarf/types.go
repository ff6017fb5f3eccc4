package dwarf

import (
	"encoding/binary"
	"reflect"
	"strconv"

	"github.com/go-stapsdt/stapsdt/internal/kind"
)

// maxTypes is the number of types after which pointers to further ones become pointers to
// void. The types are described in the order of their distance from the arguments, so that
// a pointer to a struct with many relatives does not describe half of the program.
const maxTypes = 256

// commonTypes is the number of types, those of the first arguments, that most others have too.
const commonTypes = 4

// form selects the entry that describes a Go type.
type form byte

const (
	formType form = iota // the type itself
	// the underlying type of a defined pointer or array, without its name
	formUnderlying
	formPointer // a pointer to the type
	formBits    // a number with the bits of the type, which is a float

	// These have no Go type.
	formText      // const char *
	formConstChar // const char
	formChar      // char
	formVoid      // void *
	formMoment    // a signed number with the name time.Time
	formEface     // an interface without methods, as the runtime lays it out
	formIface     // an interface with methods
)

// key identifies the entry of a type.
type key struct {
	typ  reflect.Type
	form form
}

// types is the queue of the types to describe. The entries refer to each other, so the
// references are filled in at the end.
type types struct {
	queue []entry
	index map[key]int
	names map[string]reflect.Type
	refs  []ref
}

// entry is a type and its offset in .debug_info.
type entry struct {
	key
	at uint32
}

// ref is a reference to queue[to] at an offset in .debug_info.
type ref struct{ at, to int }

// add returns the index of an entry in the queue, to which it is added if it is new.
//
//go:noinline
func (t *types) add(k key) int {
	for i := range t.queue[:min(len(t.queue), commonTypes)] { // faster than the map
		if t.queue[i].key == k {
			return i
		}
	}
	i, ok := t.index[k]
	if !ok {
		if t.index == nil {
			t.index, t.names = map[key]int{}, map[string]reflect.Type{}
		}
		i = len(t.queue)
		t.index[k] = i
		t.queue = append(t.queue, entry{key: k})
	}
	return i
}

// param adds the type of an argument. Text is passed as the address of a NUL-terminated
// copy, whatever the type's name.
//
// A float is in a register for integers. It is described as an unsigned number that has
// the float's name: bpftrace does not know floats, and if an argument is a float, version
// 0.27 crashes on every argument of the probe. A struct is a
// time.Time, as its nanoseconds since 1970.
func (t *types) param(typ reflect.Type) int {
	switch typ.Kind() {
	case reflect.String:
		return t.add(key{form: formText})
	case reflect.Slice:
		if typ.Elem().Kind() == reflect.Uint8 {
			return t.add(key{form: formText})
		}
	case reflect.Float32, reflect.Float64:
		return t.add(key{typ, formBits})
	case reflect.Struct:
		i := t.add(key{form: formMoment})
		t.claim(kind.TimeName, reflect.TypeFor[int64]())
		return i
	}
	return t.of(typ)
}

// of adds a type.
//
//go:noinline
func (t *types) of(typ reflect.Type) int {
	if typ.Kind() == reflect.Pointer && !defined(typ) {
		return t.add(key{typ.Elem(), formPointer})
	}
	return t.add(key{typ, formType})
}

// refer appends a reference to an entry of the queue.
//
//go:noinline
func (e *encoder) refer(to int) {
	e.refs = append(e.refs, ref{len(e.info), to})
	e.u32(0)
}

// describeTypes appends the types in the queue, which grows as it does so, and fills in their
// references to each other.
func (e *encoder) describeTypes() {
	for i := 0; i < len(e.queue); i++ {
		e.queue[i].at = uint32(len(e.info))
		if k := e.queue[i].key; k.typ == nil {
			e.builtin(k.form)
		} else {
			e.goType(k)
		}
	}
	for _, r := range e.refs {
		binary.LittleEndian.PutUint32(e.info[r.at:], e.queue[r.to].at)
	}
}

// The encodings of DWARF's base types: DW_ATE_*.
const (
	ateBoolean    = 0x02
	ateComplex    = 0x03
	ateFloat      = 0x04
	ateSigned     = 0x05
	ateSignedChar = 0x06
	ateUnsigned   = 0x07
)

//go:noinline
func (e *encoder) base(name string, encoding, size byte) {
	e.u8(abbrevBase)
	e.string(name)
	e.u8(encoding)
	e.u8(size)
}

//go:noinline
func (e *encoder) typedef(name string, to int) {
	e.u8(abbrevTypedef)
	e.string(name)
	e.refer(to)
}

// pointer appends a pointer to a type, or to void if there are too many types.
func (e *encoder) pointer(to reflect.Type) {
	k := key{to, formType}
	if to.Kind() == reflect.Pointer && !defined(to) {
		k = key{to.Elem(), formPointer}
	}
	if _, described := e.index[k]; !described && len(e.queue) >= maxTypes {
		e.u8(abbrevVoidPointer)
		e.u8(addrSize)
		return
	}
	e.u8(abbrevPointer)
	e.u8(addrSize)
	e.refer(e.add(k))
}

// builtin appends an entry without a Go type.
func (e *encoder) builtin(f form) {
	switch f {
	case formText:
		e.u8(abbrevPointer)
		e.u8(addrSize)
		e.refer(e.add(key{form: formConstChar}))
	case formConstChar:
		e.u8(abbrevConst)
		e.refer(e.add(key{form: formChar}))
	case formChar:
		e.base("char", ateSignedChar, 1)
	case formVoid:
		e.u8(abbrevVoidPointer)
		e.u8(addrSize)
	case formMoment:
		e.typedef(kind.TimeName, e.of(reflect.TypeFor[int64]()))
	case formEface:
		e.words("runtime.eface", word{"_type", e.void()}, word{"data", e.void()})
	case formIface:
		e.words("runtime.iface", word{"tab", e.void()}, word{"data", e.void()})
	}
}

//go:noinline
func (e *encoder) integer() int { return e.of(reflect.TypeFor[int]()) }

//go:noinline
func (e *encoder) void() int { return e.add(key{form: formVoid}) }

// word is a member that has the size of a pointer.
type word struct {
	name string
	typ  int
}

// words appends a struct of words.
func (e *encoder) words(name string, words ...word) {
	e.u8(abbrevStruct)
	e.string(name)
	e.uleb(addrSize * uint64(len(words)))
	for i, w := range words {
		e.member(w.name, w.typ, addrSize*uint64(i))
	}
	e.u8(0)
}

//go:noinline
func (e *encoder) member(name string, typ int, offset uint64) {
	e.u8(abbrevMember)
	e.string(name)
	e.refer(typ)
	e.uleb(offset)
}

// bases are DWARF's base types in Go, and encodings their encodings.
var (
	bases = [...]any{
		reflect.Bool: false, reflect.Int: 0, reflect.Int8: int8(0), reflect.Int16: int16(0),
		reflect.Int32: int32(0), reflect.Int64: int64(0),
		reflect.Uint:  uint(0),
		reflect.Uint8: uint8(0), reflect.Uint16: uint16(0), reflect.Uint32: uint32(0),
		reflect.Uint64:  uint64(0),
		reflect.Uintptr: uintptr(0), reflect.Float32: float32(0), reflect.Float64: float64(0),
		reflect.Complex64: complex64(0), reflect.Complex128: complex128(0),
	}
	encodings = [len(bases)]byte{
		reflect.Bool: ateBoolean, reflect.Int: ateSigned, reflect.Int8: ateSigned,
		reflect.Int16: ateSigned, reflect.Int32: ateSigned,
		reflect.Int64: ateSigned, reflect.Uint: ateUnsigned, reflect.Uint8: ateUnsigned,
		reflect.Uint16: ateUnsigned, reflect.Uint32: ateUnsigned,
		reflect.Uint64: ateUnsigned, reflect.Uintptr: ateUnsigned, reflect.Float32: ateFloat,
		reflect.Float64:   ateFloat,
		reflect.Complex64: ateComplex, reflect.Complex128: ateComplex,
	}
)

// base returns the type that is predeclared with the name of a kind, and its encoding. It
// returns nil if the kind is not one of DWARF's base types.
func base(kind reflect.Kind) (typ reflect.Type, encoding byte) {
	if int(kind) >= len(bases) {
		return nil, 0
	}
	return reflect.TypeOf(bases[kind]), encodings[kind]
}

// goType appends the entry of a Go type.
func (e *encoder) goType(k key) {
	typ := k.typ
	if k.form == formPointer {
		e.pointer(typ)
		return
	}
	if base, encoding := base(typ.Kind()); base == typ {
		if k.form == formBits {
			encoding = ateUnsigned
		}
		e.base(typ.String(), encoding, byte(typ.Size()))
		return
	} else if base != nil {
		e.typedef(e.name(typ), e.add(key{base, k.form}))
		return
	}
	switch typ.Kind() {
	case reflect.String:
		e.text(typ)
	case reflect.Slice:
		e.words(e.name(typ), word{"array", e.add(key{typ.Elem(), formPointer})},
			word{"len", e.integer()}, word{"cap", e.integer()})
	case reflect.Struct:
		e.structure(typ)
	case reflect.Interface:
		form := formIface
		if typ.NumMethod() == 0 {
			form = formEface
		}
		e.typedef(e.name(typ), e.add(key{form: form}))
	case reflect.Pointer, reflect.Array:
		e.composite(k)
	default: // a map, a chan, a func, or an unsafe.Pointer
		e.typedef(e.name(typ), e.void())
	}
}

// text appends a string inside other types.
func (e *encoder) text(typ reflect.Type) {
	if plain := reflect.TypeFor[string](); typ != plain {
		e.typedef(e.name(typ), e.of(plain))
		return
	}
	e.words("string", word{"str", e.add(key{reflect.TypeFor[byte](), formPointer})}, word{"len", e.integer()})
}

// composite appends a pointer or an array. The name of a defined type becomes a typedef.
func (e *encoder) composite(k key) {
	typ := k.typ
	switch {
	case k.form == formType && defined(typ):
		e.typedef(e.name(typ), e.add(key{typ, formUnderlying}))
	case typ.Kind() == reflect.Pointer:
		e.pointer(typ.Elem())
	default:
		e.u8(abbrevArray)
		e.refer(e.of(typ.Elem()))
		if typ.Len() == 0 {
			e.u8(abbrevEmptyRange)
			e.uleb(0)
		} else {
			e.u8(abbrevRange)
			e.uleb(uint64(typ.Len()) - 1)
		}
		e.u8(0)
	}
}

// structure appends a struct. A blank field is padding.
func (e *encoder) structure(typ reflect.Type) {
	if typ.NumField() == 0 {
		e.u8(abbrevEmptyStruct)
		e.string(e.name(typ))
		e.uleb(0)
		return
	}
	e.u8(abbrevStruct)
	e.string(e.name(typ))
	e.uleb(uint64(typ.Size()))
	for i := range typ.NumField() {
		if f := typ.Field(i); f.Name != "_" {
			e.member(f.Name, e.of(f.Type), uint64(f.Offset))
		}
	}
	e.u8(0)
}

// defined reports whether a pointer or an array is of a type that has a name. It does not
// call typ.Name: the linker would then keep the Name methods of all types in the program.
func defined(typ reflect.Type) bool {
	first := typ.String()[0]
	return first != '*' && first != '['
}

// name returns a type's name, as Go programs spell it: time.Duration. Tracers identify a type by
// its name, so further types of the same name get a number. Types without a name get their
// description in Go for this reason. The types of package time, which tracers know, keep their
// names.
func (t *types) name(typ reflect.Type) string {
	name := typ.String()
	foreign := kind.Int.UnitOf(name, 8) != kind.None && typ.PkgPath() != "time"
	for i := 1; foreign || !t.claim(name, typ); i++ {
		name, foreign = typ.String()+"#"+strconv.Itoa(i), false
	}
	return name
}

// claim reports whether a name belongs to the type. A free name is given to the type.
//
//go:noinline
func (t *types) claim(name string, typ reflect.Type) bool {
	if t.names[name] == nil {
		t.names[name] = typ
	}
	return t.names[name] == typ
}
