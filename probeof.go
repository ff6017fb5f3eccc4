package stapsdt

import (
	"cmp"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"unicode"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/call"
	"github.com/go-stapsdt/stapsdt/internal/words"
)

// ProbeOf is a probe whose arguments are the fields of a struct, T. [NewProbeOf] describes
// the fields that T can have.
type ProbeOf[T any] struct {
	Probe

	// offsets are the offsets of the arguments in T.
	offsets []uintptr
}

// NewProbeOf defines a probe of the provider whose arguments are the fields of the struct
// T, in their order. There can be up to MaxArgs.
//
// A field has a type that [Arg] allows, or is a pointer to a struct, which a tracer sees
// as its address. The struct is kept alive until Fire returns.
//
// An argument has the name in the field's tag, as in `probe:"name"`, or else the field's
// name in snake case: HTTPStatus becomes http_status. [Probe.NameArgs] describes valid
// names. A field with the tag `probe:"-"` and a field named _ are omitted. The fields of an
// embedded struct without a tag become arguments like T's own, and so do the fields of a struct
// with the tag `probe:",inline"`, whose type may be a type parameter, which Go cannot embed.
// Any other unexported field is an error, so that none is lost by mistake.
//
// If the definition is invalid, Load reports it: with ErrArgType if T is not a struct or has
// a field that cannot be an argument, with ErrName if an argument's name is invalid or
// occurs twice, with ErrConflict, and with ErrTooManyArgs. With a nil provider the probe is a
// no-op.
func NewProbeOf[T any](p *Provider, name string) *ProbeOf[T] {
	t := new(ProbeOf[T])
	t.offsets = p.defineFields(&t.Probe, name, reflect.TypeFor[T]())
	return t
}

// Fire reports an event with the fields of args to the tracers that are attached to the
// probe, and to the provider's observers. It does nothing while there are none. The caller
// makes args in either case: if T is large, FireFunc is faster while the probe is idle.
func (p *ProbeOf[T]) Fire(args T) {
	if p.on() {
		p.fire(args)
	}
}

// FireFunc is like Fire with the result of args, which is called only while there is a
// tracer or an observer. args must not panic: the panic would first occur when a tracer
// attaches.
func (p *ProbeOf[T]) FireFunc(args func() T) {
	if p.on() {
		p.fireFunc(args)
	}
}

//go:noinline
func (p *ProbeOf[T]) fireFunc(args func() T) { p.fire(args()) }

// fire is like the fire method of the probes in typed_gen.go.
//
//go:noinline
func (p *ProbeOf[T]) fire(args T) (fired bool) {
	var fields [MaxArgs]unsafe.Pointer
	for i, offset := range p.offsets {
		// SAFETY: offset is the offset of a field of T.
		fields[i] = unsafe.Add(unsafe.Pointer(&args), offset)
	}
	if s := p.untraced(); s != nil {
		s.Append(words.NoEscape(unsafe.Pointer(&fields)))
		return true
	}
	var in words.Arguments
	p.convert(&in, fields[:])
	p.notify(&in)
	if p.pointers == 0 && len(p.args) <= call.MaxRegs {
		fired = call.WithRegisters(&p.site, in.Registers())
	} else {
		fired = p.enter(&in.Words, fields[:], p.pointers)
	}
	in.Release()
	keepAlive(args)
	runtime.KeepAlive(p)
	return fired
}

// defineFields is define for the fields of a struct. It returns their offsets.
func (p *Provider) defineFields(probe *Probe, name string, typ reflect.Type) (offsets []uintptr) {
	fields, err := fieldsOf(typ)
	if err != nil {
		probe.init(p, name, nil)
		p.recordError(p.fail("define", name, err))
		return nil
	}
	var names []string
	var types []reflect.Type
	for _, f := range fields {
		names, types = append(names, f.name), append(types, f.typ)
		offsets = append(offsets, f.offset)
	}
	p.define(probe, name, names, types...)
	return offsets
}

// field is a field of a struct that is an argument.
type field struct {
	name   string
	typ    reflect.Type
	offset uintptr
}

// fieldsOf returns the arguments of a ProbeOf.
func fieldsOf(typ reflect.Type) ([]field, error) {
	if typ.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%w: %v is not a struct", ErrArgType, typ)
	}
	return appendFields(nil, typ, 0)
}

// inline is the tag of a struct whose fields are arguments.
const inline = ",inline"

// appendFields appends the arguments in a struct that begins at an offset.
func appendFields(list []field, typ reflect.Type, start uintptr) ([]field, error) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		tag := f.Tag.Get("probe")
		if tag == "-" || f.Name == "_" {
			continue
		}
		offset := start + f.Offset
		if tag == inline && f.Type.Kind() != reflect.Struct {
			return nil, fmt.Errorf("%w: the field %s of %v has the type %v, which is not a struct", ErrArgType, f.Name, typ, f.Type)
		}
		embedded := f.Anonymous && f.Type.Kind() == reflect.Struct && argTypeOf(f.Type) == noArg
		if tag == inline || embedded && tag == "" {
			var err error
			if list, err = appendFields(list, f.Type, offset); err != nil {
				return nil, err
			}
			continue
		}
		if !f.IsExported() {
			return nil, fmt.Errorf("%w: the field %s of %v is not exported; export it, or give it the tag %s", ErrArgType, f.Name, typ, "`probe:\"-\"`")
		}
		if argTypeOf(f.Type) == noArg {
			return nil, fmt.Errorf("%w: the field %s of %v has the type %v, which an argument cannot have", ErrArgType, f.Name, typ, f.Type)
		}
		list = append(list, field{cmp.Or(tag, snake(f.Name)), f.Type, offset})
	}
	return list, nil
}

// snake returns a Go name in snake case: HTTPStatus becomes http_status.
func snake(name string) string {
	runes := []rune(name)
	var b strings.Builder
	for i, r := range runes {
		if i > 0 && startsWord(runes[i-1], r, runes[i+1:]) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// startsWord reports whether a letter of a Go name begins a word. In HTTPStatus, P does not
// and S does, because t follows. The plural of an abbreviation, as in IDs, and its version,
// as in IPv4, belong to the same word.
func startsWord(before, r rune, after []rune) bool {
	switch {
	case !unicode.IsUpper(r) || before == '_':
		return false
	case !unicode.IsUpper(before):
		return true
	case len(after) == 0 || !unicode.IsLower(after[0]):
		return false
	case after[0] == 's':
		return len(after) > 1 && unicode.IsLower(after[1])
	case after[0] == 'v':
		return len(after) == 1 || !unicode.IsDigit(after[1])
	}
	return true
}
