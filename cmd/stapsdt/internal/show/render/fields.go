package render

import (
	"encoding/binary"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// fields formats the struct, {path="/" status=200}, or the Go string that an argument points to.
type fields struct {
	notation
	d *value.Details
	v *value.Value
	// short leaves out the parts of fields, and the fields that are not known or do not fit a line.
	short bool
	// depth is the current nesting depth of structs and arrays, and values the number of values.
	depth, values int
}

const (
	maxDepth    = 8
	maxElements = 16
	// maxValues bounds the values, which arrays of arrays multiply.
	maxValues = 1 << 12
	// maxLine is the number of bytes above which a struct is shortened for a line of text.
	maxLine = 240
)

// whole appends the struct. A line for people is of no use if it fills a screen.
func (f *fields) whole(to []byte) []byte {
	all := f.value(to, f.d.Type, 0)
	if f.notation == asJSON || len(all)-len(to) <= maxLine {
		return all
	}
	f.short, f.values = true, 0
	return f.value(all[:len(to)], f.d.Type, 0)
}

// structure appends a struct at an offset of the whole. A time.Time is shown as an argument is. A
// short one ends in … if fields are left out.
func (f *fields) structure(to []byte, t *sdt.Type, at int64) []byte {
	if n, ok := f.moment(t, at); ok {
		return f.number(to, expr.Type{Kind: expr.Int, Size: 8, Unit: kind.Moment}, uint64(n))
	}
	if f.short && f.depth > 0 {
		return append(to, "{"+ellipsis+"}"...)
	}
	f.depth++
	to = append(to, '{')
	start, omitted := len(to), false
	for _, field := range t.Fields {
		end := len(to)
		to = f.separate(to, start)
		name := len(to)
		to = append(f.name(to, field.Name), f.or('=', ':'))
		value := len(to)
		to = f.field(to, field, at)
		isLong := end-start+len(to)-name-len("=") > maxLine
		if f.short && (isLong || string(to[value:]) == ellipsis) {
			to, omitted = to[:end], true
		}
	}
	f.depth--
	if omitted {
		to = f.unknown(f.separate(to, start))
	}
	return append(to, '}')
}

// separate appends a separator if there is a part after start.
func (f *fields) separate(to []byte, start int) []byte {
	if len(to) > start {
		to = append(to, f.or(' ', ','))
	}
	return to
}

// moment returns the moment of a time.Time. ok is false if the struct is not one, or if no moment
// represents it.
func (f *fields) moment(t *sdt.Type, at int64) (n int64, ok bool) {
	if !value.IsTime(t) {
		return 0, false
	}
	wall, _ := f.bits(at, 8)
	ext, ok := f.bits(at+8, 8)
	if !ok {
		return 0, false
	}
	return kind.FromWords(wall, ext)
}

func (f *fields) field(to []byte, field sdt.Field, at int64) []byte {
	if field.BitSize == 0 {
		return f.value(to, field.Type, at+field.Offset)
	}
	// A bit field is within eight bytes, on the architectures that are traced.
	start := field.Offset*8 + field.BitOffset
	word, ok := f.bits(at+start/8, (start%8+field.BitSize+7)/8)
	if !ok || start < 0 || field.BitSize < 0 || field.BitSize > 64 || field.Type == nil {
		return f.unknown(to)
	}
	unused := 64 - field.BitSize
	word = word >> (start % 8) << unused
	if field.Type.Kind == sdt.KindInt {
		return f.number(to, expr.Type{Kind: expr.Int, Size: 8}, uint64(int64(word)>>unused))
	}
	return f.number(to, expr.Type{Kind: expr.Uint, Size: 8}, word>>unused)
}

// value appends a value at an offset of the whole.
func (f *fields) value(to []byte, t *sdt.Type, at int64) []byte {
	isHere := func(d value.DetailText) bool { return int64(d.At) == at }
	if i := slices.IndexFunc(f.d.Texts, isHere); i >= 0 && t != nil &&
		(t.IsString() || value.IsGoString(t)) {
		return f.textAt(to, i)
	}
	f.values++
	switch {
	case t == nil || f.depth > maxDepth || f.values > maxValues,
		value.IsGoString(t): // whose bytes were not read
		return f.unknown(to)
	case t.Kind == sdt.KindStruct:
		return f.structure(to, t, at)
	case t.Kind == sdt.KindArray:
		return f.array(to, t, at)
	}
	bits, ok := f.bits(at, t.Size)
	if !ok {
		return f.unknown(to)
	}
	size := int(t.Size)
	switch t.Kind {
	case sdt.KindBool:
		return f.number(to, expr.Type{Kind: expr.Bool, Size: 1}, bits)
	case sdt.KindInt:
		unused := 64 - 8*size
		of := expr.Type{Kind: expr.Int, Size: size, Unit: kind.Int.UnitOf(t.Name, size)}
		return f.number(to, of, uint64(int64(bits<<unused)>>unused))
	case sdt.KindFloat:
		if size == 4 || size == 8 {
			return f.number(to, expr.Type{Kind: expr.Float, Size: size}, bits)
		}
	case sdt.KindUint, sdt.KindChar:
		of := expr.Type{Kind: expr.Uint, Size: size, Unit: kind.Uint.UnitOf(t.Name, size)}
		return f.number(to, of, bits)
	case sdt.KindPointer:
		return f.number(to, expr.Type{Kind: expr.Uint, Size: size, Unit: kind.Address}, bits)
	}
	return f.unknown(to)
}

// bits returns up to eight bytes of the struct.
func (f *fields) bits(at, size int64) (bits uint64, ok bool) {
	whole := int64(len(f.v.Struct))
	if at < 0 || at > whole || size < 1 || size > 8 || at+size > whole {
		return 0, false
	}
	var word [8]byte
	copy(word[:], f.v.Struct[at:at+size])
	return binary.LittleEndian.Uint64(word[:]), true
}

// textAt appends the i-th string.
func (f *fields) textAt(to []byte, i int) []byte {
	t, d := f.d.Text(f.v, i), f.d.Texts[i]
	address, _ := f.bits(int64(d.At), 8)
	if t.Missing || address == 0 && !d.IsGo {
		return f.noText(to, address, d.IsGo)
	}
	return f.text(to, t.Text, t.Cut)
}

// array appends the first elements of an array. An array of chars or of Go's bytes is formatted as
// a string.
func (f *fields) array(to []byte, t *sdt.Type, at int64) []byte {
	if t.Elem == nil || t.Elem.Size <= 0 {
		return f.unknown(to)
	}
	rest := int64(len(f.v.Struct)) - at
	isBytes := t.Elem.Name == value.ByteName && t.Elem.Size == 1
	if isBytes && at >= 0 && rest >= 0 && t.Count >= 0 {
		text, _ := value.Bytes(f.v.Struct[at:at+min(t.Count, rest)], len(f.v.Struct))
		return f.text(to, text, t.Count > rest)
	}
	isText := t.Elem.Kind == sdt.KindChar && t.Elem.Size == 1
	if isText && at >= 0 && t.Count >= 0 && t.Count <= rest {
		text := f.v.Struct[at : at+t.Count]
		if i := slices.Index(text, 0); i >= 0 {
			text = text[:i]
		}
		return f.text(to, text, false)
	}
	if f.short {
		return append(to, "["+ellipsis+"]"...)
	}
	f.depth++
	to = append(to, '[')
	start := len(to)
	for i := range min(t.Count, maxElements) {
		to = f.value(f.separate(to, start), t.Elem, at+i*t.Elem.Size)
	}
	f.depth--
	if t.Count > maxElements {
		to = f.unknown(f.separate(to, start))
	}
	return append(to, ']')
}
