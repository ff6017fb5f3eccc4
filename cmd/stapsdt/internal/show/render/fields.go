package render

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/event"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// fields formats the struct that an argument points to: {path="/" status=200}, or as JSON.
type fields struct {
	d    *event.Details
	v    *event.Value
	json bool
	// depth is the current nesting depth of structs and arrays.
	depth int
}

const (
	maxDepth    = 8
	maxElements = 16
)

// structure appends a struct at an offset of the whole. A time.Time is shown as an argument is.
func (f *fields) structure(to []byte, t *sdt.Type, at int64) []byte {
	if moment, ok := f.moment(t, at); ok {
		text := moment.Format(time.RFC3339Nano)
		if f.json {
			return AppendJSONString(to, text)
		}
		return append(to, text...)
	}
	f.depth++
	defer func() { f.depth-- }()
	to = append(to, '{')
	for i, field := range t.Fields {
		if i > 0 {
			to = append(to, f.or(' ', ','))
		}
		if f.json {
			to = append(AppendJSONString(to, field.Name), ':')
		} else {
			to = append(append(to, Printable(field.Name)...), '=')
		}
		to = f.field(to, field, at)
	}
	return append(to, '}')
}

// timeFields are the fields of a time.Time, of eight bytes each.
var timeFields = [...]string{"wall", "ext", "loc"}

// moment returns the time that a struct holds. ok is false if it is not a time.Time, or has not the
// content of one. Package time documents it: below a flag, wall has 33 bits of seconds since 1885
// and 30 of nanoseconds. Without the flag, these seconds are 0, and ext has those since the year 1.
func (f *fields) moment(t *sdt.Type, at int64) (moment time.Time, ok bool) {
	name, _, _ := strings.Cut(t.Name, "#") // which tells types of the same name apart
	if name != kind.Rows[kind.Time].Sent || len(t.Fields) != len(timeFields) {
		return moment, false
	}
	for i, name := range timeFields {
		if t.Fields[i].Name != name || t.Fields[i].Offset != int64(8*i) {
			return moment, false
		}
	}
	wall, ok := f.bits(at, 8)
	ext, whole := f.bits(at+8, 8)
	const flag, nanoseconds, second = 1 << 63, 30, 1_000_000_000
	seconds, fraction := int64(ext), int64(wall&(1<<nanoseconds-1))
	if wall&flag != 0 {
		seconds = before1885 + int64(wall&^flag>>nanoseconds)
	} else if wall>>nanoseconds != 0 {
		return moment, false
	}
	if !ok || !whole || fraction >= second || seconds < 0 || seconds >= before10000 {
		return moment, false
	}
	return time.Unix(seconds-before1970, fraction).UTC(), true
}

// The seconds from the beginning of the year 1 to that of other years.
const (
	before1885  = 59_453_308_800
	before1970  = 62_135_596_800
	before10000 = 315_537_897_600
)

func (f *fields) or(text, json byte) byte {
	if f.json {
		return json
	}
	return text
}

func (f *fields) field(to []byte, field sdt.Field, at int64) []byte {
	if field.BitSize == 0 {
		return f.value(to, field.Type, at+field.Offset)
	}
	// A bit field is within eight bytes, on the architectures that are traced.
	start := field.Offset*8 + field.BitOffset
	word, ok := f.bits(at+start/8, (start%8+field.BitSize+7)/8)
	if !ok || start < 0 || field.BitSize < 0 || field.BitSize > 64 || field.Type == nil {
		return f.nothing(to)
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
	isHere := func(d event.DetailText) bool { return int64(d.At) == at }
	if i := slices.IndexFunc(f.d.Texts, isHere); i >= 0 && t != nil &&
		(t.IsString() || event.IsGoString(t)) {
		return f.text(to, f.v.Texts[i], at)
	}
	switch {
	case t == nil || f.depth > maxDepth:
		return f.nothing(to)
	case t.Kind == sdt.KindStruct:
		return f.structure(to, t, at)
	case t.Kind == sdt.KindArray:
		return f.array(to, t, at)
	}
	bits, ok := f.bits(at, t.Size)
	if !ok {
		return f.nothing(to)
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
		if f.json {
			return fmt.Appendf(to, `"%#x"`, bits)
		}
		return fmt.Appendf(to, "%#x", bits)
	}
	return f.nothing(to)
}

// bits returns up to eight bytes of the struct.
func (f *fields) bits(at, size int64) (bits uint64, ok bool) {
	if at < 0 || at > int64(len(f.v.Struct)) || size < 1 || size > 8 || at+size > int64(len(f.v.Struct)) {
		return 0, false
	}
	var word [8]byte
	copy(word[:], f.v.Struct[at:at+size])
	return binary.LittleEndian.Uint64(word[:]), true
}

// nothing appends a placeholder for a value that is not shown, such as a value beyond the part of a large struct that
// was read.
func (f *fields) nothing(to []byte) []byte {
	if f.json {
		return append(to, "null"...)
	}
	return append(to, "…"...)
}

func (f *fields) number(to []byte, t expr.Type, bits uint64) []byte {
	if f.json {
		return AppendJSONNumber(to, t, bits)
	}
	return AppendNumber(to, t, bits)
}

func (f *fields) text(to []byte, t event.Text, at int64) []byte {
	address, _ := f.bits(at, 8)
	switch {
	case f.json && (t.Missing || address == 0 && len(t.Text) == 0 && !f.isGo(at)):
		return append(to, "null"...)
	case f.json:
		return f.quoted(to, t)
	case address == 0 && !f.isGo(at):
		return append(to, "<null>"...)
	case t.Missing:
		return fmt.Appendf(to, "<unreadable %#x>", address)
	}
	return f.quoted(to, t)
}

func (f *fields) quoted(to []byte, t event.Text) []byte {
	if f.json {
		return AppendJSONString(to, t.Text)
	}
	to = appendQuoted(to, t.Text)
	if t.Cut {
		to = append(to, "…"...)
	}
	return to
}

func (f *fields) isGo(at int64) bool {
	isHere := func(d event.DetailText) bool { return int64(d.At) == at && d.IsGo }
	return slices.ContainsFunc(f.d.Texts, isHere)
}

// array appends the first elements of an array. An array of chars or of Go's bytes is formatted as
// a string.
func (f *fields) array(to []byte, t *sdt.Type, at int64) []byte {
	if t.Elem == nil || t.Elem.Size <= 0 {
		return f.nothing(to)
	}
	rest := int64(len(f.v.Struct)) - at
	isBytes := t.Elem.Name == event.ByteName && t.Elem.Size == 1
	if isBytes && at >= 0 && rest >= 0 && t.Count >= 0 {
		text, _ := event.Bytes(f.v.Struct[at:at+min(t.Count, rest)], len(f.v.Struct))
		return f.quoted(to, event.Text{Text: text, Cut: t.Count > rest})
	}
	if t.Elem.Kind == sdt.KindChar && t.Elem.Size == 1 && at >= 0 && t.Count >= 0 && t.Count <= int64(len(f.v.Struct))-at {
		text := f.v.Struct[at : at+t.Count]
		if i := slices.Index(text, 0); i >= 0 {
			text = text[:i]
		}
		if f.json {
			return AppendJSONString(to, text)
		}
		return appendQuoted(to, text)
	}
	f.depth++
	defer func() { f.depth-- }()
	to = append(to, '[')
	for i := range t.Count {
		if i > 0 {
			to = append(to, f.or(' ', ','))
		}
		if i == maxElements {
			to = f.nothing(to)
			break
		}
		to = f.value(to, t.Elem, at+i*t.Elem.Size)
	}
	return append(to, ']')
}
