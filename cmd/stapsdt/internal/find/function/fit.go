//go:build linux

package function

import (
	"reflect"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/gosource"
)

// leaf is a part of a value that has a place of its own.
type leaf struct{ offset, size int64 }

// leaves adds the parts into which the compiler splits a value at an offset. ok is false if it does
// not split it.
func (t *goType) leaves(at int64, all []leaf) (_ []leaf, ok bool) {
	if t.err != nil || len(all) > maxParts {
		return all, false
	}
	word := func(i int64) leaf { return leaf{at + i*wordSize, wordSize} }
	switch t.kind {
	case reflect.Complex64:
		return append(all, leaf{at, 4}, leaf{at + 4, 4}), true
	case reflect.Complex128, reflect.String, reflect.Interface:
		return append(all, word(0), word(1)), true
	case reflect.Slice:
		return append(all, word(0), word(1), word(2)), true
	case reflect.Array:
		if t.count == 1 {
			return t.elem.leaves(at, all)
		}
		return all, t.count == 0
	case reflect.Struct:
		for _, f := range t.fields {
			if all, ok = f.typ.leaves(at+f.offset, all); !ok {
				return all, false
			}
		}
		return all, true
	}
	return append(all, leaf{at, t.size}), true
}

// fit assigns the pieces of a location to the parts of a value of a type. Pieces are in the order
// of the parts, without the padding between them. A location that is fixed is all of the value, and
// one of a list must say which part it is.
func (l *local) fit(t *goType, all []piece, fixed bool) error {
	parts, splits := t.leaves(0, nil)
	if len(all) == 1 && all[0].size == 0 {
		switch one := all[0]; {
		case one.memory && (fixed || splits && len(parts) == 1):
			l.whole = &one
		case splits && len(parts) == 1:
			l.parts = map[int64]piece{parts[0].offset: one}
		case one.memory:
			return errPart
		default:
			return errMismatch
		}
		return nil
	}
	if !splits {
		return errMismatch
	}
	l.parts = map[int64]piece{}
	for _, p := range all {
		n, ok := l.assign(parts, p)
		if !ok {
			return errMismatch
		}
		parts = parts[n:]
	}
	if len(parts) > 0 {
		return errMismatch
	}
	return nil
}

// assign assigns a piece to the first of some parts, or several parts that are in memory or
// nowhere. It returns their number.
func (l *local) assign(parts []leaf, p piece) (n int, ok bool) {
	if len(parts) == 0 {
		return 0, false
	}
	start := parts[0].offset
	for n < len(parts) && parts[n].offset+parts[n].size <= start+p.size {
		part := p
		part.offset += parts[n].offset - start
		l.parts[parts[n].offset] = part
		n++
	}
	switch {
	case n == 0, n > 1 && p.register >= 0, n == 1 && p.size != parts[0].size:
		return 0, false
	case n < len(parts) && parts[n].offset < start+p.size:
		return 0, false
	}
	return n, true
}

// part returns what a part of a value is: its type, or if it is none, the type that has a method of
// the name, and the name. inside is false if the part is not in the value, but behind a pointer.
func (t *goType) part(p gosource.Part) (of *goType, method string, inside bool) {
	for _, name := range strings.Split(string(p), ".")[1:] {
		switch {
		case t.err != nil:
			return t, name, true
		case t.kind == reflect.Array:
			if "."+name != gosource.Element {
				return t, name, true
			}
			t = t.elem
		case t.kind == reflect.Struct:
			field := t.field(name, maxNesting)
			if field == nil {
				return t, name, true
			}
			t = field
		case t.kind == reflect.Pointer, t.kind == reflect.Interface, "."+name == gosource.Element:
			return nil, "", false
		default:
			return t, name, true
		}
	}
	return t, "", true
}

// field returns the type of a field of a struct, or of a struct that is embedded in it. It is nil
// if there is none.
func (t *goType) field(name string, depth int) *goType {
	for _, f := range t.fields {
		if f.name == name {
			return f.typ
		}
	}
	for _, f := range t.fields {
		if depth > 0 && f.typ.kind == reflect.Struct && lastName(f.typ.name) == f.name {
			if found := f.typ.field(name, depth-1); found != nil {
				return found
			}
		}
	}
	return nil
}

// lastName returns the last part of the name of a type or a function, without type arguments.
func lastName(name string) string {
	if i := strings.IndexByte(name, '['); i >= 0 {
		name = name[:i]
	}
	return name[strings.LastIndexByte(name, '.')+1:]
}
