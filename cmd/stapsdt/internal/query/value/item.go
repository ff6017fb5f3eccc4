package value

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// Item is a value in a record or a key.
type Item struct {
	Name string
	Type expr.Type
	// Described is the type that DWARF gives to an argument, or nil.
	Described *sdt.Type
	// Offset and Size are its place in the record. A string is an address, a length and the
	// bytes; the length counts the NUL.
	Offset, Size int
	// TextSize is the maximum number of bytes of a string that are shown. The record has one byte
	// more, to detect longer strings, and a NUL.
	TextSize int
	// Details are the struct that an argument points to, or nil.
	Details *Details
	// Unreadable is the reason that an argument can never be read, or nil.
	Unreadable error
	// IsGo means that a string is a Go string, which can contain NULs. In a key, it ends at the
	// first NUL.
	IsGo bool
	// IsBytes means that a Go string is a slice or an array of bytes. Its text is the result of
	// Bytes. In a key, it can contain NULs.
	IsBytes bool
	// Bare means that a string is the name of something, which is shown without quotes.
	Bare bool
	// Names maps the numbers to names, or is nil.
	Names Names
	// Constants are the names of some of the numbers, or nil.
	Constants Constants
}

// UnsureFunction is the function by which expressions name an argument that may have an old value.
const UnsureFunction = "unsure"

// Unsure returns the name of an argument that may have an old value: the call of UnsureFunction.
func Unsure(name string) string { return UnsureFunction + "(" + name + ")" }

// CutUnsure returns a name without the mark of Unsure, and whether it had one.
func CutUnsure(name string) (inner string, isUnsure bool) {
	inner, isUnsure = strings.CutPrefix(name, UnsureFunction+"(")
	if !isUnsure {
		return name, false
	}
	return strings.TrimSuffix(inner, ")"), true
}

// Constants maps numbers, with their signs extended, to the names of constants.
type Constants map[uint64]string

// Names maps numbers to the names of the things that they identify, such as the addresses
// of types.
type Names interface {
	// NameOf returns the name of a number.
	NameOf(bits uint64) string
}

// TextSize is the maximum number of bytes of a string in a key. Only these are compared.
const TextSize = 64

// KeyLength is the offset in the slot of bytes in a key at which their number plus 1 is. There is a
// NUL before it.
const KeyLength = TextSize + 1

// MaxContains is the maximum length of the strings that strings.Contains and strings.HasSuffix
// look for.
const MaxContains = 16

// In returns the value of an item in a key, or in another part of a table: its bits or its
// string, and whether the string was cut.
func (i *Item) In(key []byte) (bits uint64, text []byte, cut bool) {
	raw := key[i.Offset:][:i.Size]
	if i.Type.Kind != expr.String {
		return binary.NativeEndian.Uint64(raw), nil, false
	}
	if i.IsBytes {
		raw = raw[:min(int(raw[KeyLength]), TextSize+1)]
		raw = raw[:max(len(raw)-1, 0)]
		text, cut = Bytes(raw, len(raw))
		return 0, text, len(raw) == TextSize
	}
	raw = CString(raw)
	// A string of exactly this length cannot be distinguished from one that was cut.
	if len(raw) == TextSize {
		return 0, WholeRunes(raw), true
	}
	return 0, raw, false
}

// Put stores a value for In, and reports whether In returns it.
func (i *Item) Put(key []byte, bits uint64, text string) bool {
	raw := key[i.Offset:][:i.Size]
	if i.Type.Kind != expr.String {
		binary.NativeEndian.PutUint64(raw, bits)
		return true
	}
	if i.IsBytes { // the text may have been made of other bytes
		return false
	}
	text, _, _ = strings.Cut(text, "\x00")
	return copy(raw[:min(len(raw), TextSize)], text) == len(text)
}

// WholeRunes returns text without the bytes of an incomplete rune at the end, where it was cut.
func WholeRunes(text []byte) []byte {
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax+1); i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return text[:i]
			}
			break
		}
	}
	return text
}

// Bytes returns at most most bytes of a []byte as text, and whether there are more. Bytes that are
// not UTF-8 become hexadecimal digits after 0x. So do bytes that begin with 0x, so that no two
// values have the same text.
func Bytes(b []byte, most int) (text []byte, cut bool) {
	text, cut = Cut(b, most)
	if utf8.Valid(text) && !bytes.HasPrefix(text, []byte(hexPrefix)) {
		return text, cut
	}
	return hex.AppendEncode([]byte(hexPrefix), b[:min(len(b), most)]), cut
}

const hexPrefix = "0x"

// Details describes the part of a record that holds the struct to which an argument points.
type Details struct {
	Type *sdt.Type
	// Offset is the offset of the struct in the record. The record has Size bytes of it, and not
	// all if it is large. A word that is 0 if they could be read precedes them.
	Offset, Size int
	Texts        []DetailText
}

// In returns the struct and its strings in the part of a record that begins with the word before
// the struct. They are nil if the struct could not be read.
func (d *Details) In(part []byte) (whole, texts []byte) {
	if binary.NativeEndian.Uint64(part) != 0 {
		return nil, nil
	}
	part = part[8:]
	return part[:d.Size], part[d.Size:]
}

// Text returns the n-th string of a struct.
func (d *Details) Text(v *Value, n int) Text {
	t := &d.Texts[n]
	rest := v.Texts[t.Offset-8-d.Offset-d.Size:]
	length := int64(binary.NativeEndian.Uint64(rest))
	if length < 0 {
		return Text{Missing: true}
	}
	rest = rest[8:][:min(length, int64(t.TextSize)+1)]
	text, cut := Read(rest, t.IsGo, t.IsBytes, t.TextSize)
	return Text{Text: text, Cut: cut}
}

// Read returns at most most bytes of a string that was read, and whether there are more.
func Read(b []byte, isGo, isBytes bool, most int) (text []byte, cut bool) {
	if isBytes {
		return Bytes(b, most)
	}
	if !isGo {
		b = CString(b)
	}
	return Cut(b, most)
}

// Cut returns at most most bytes of a text, without an incomplete rune, and whether there are more.
func Cut(text []byte, most int) (kept []byte, cut bool) {
	if len(text) <= most {
		return text, false
	}
	return WholeRunes(text[:most]), true
}

// CString returns b up to the first NUL.
func CString(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

// DetailText is a string in a struct: a pointer to char, or a Go string.
type DetailText struct {
	// At is the offset of the address in the struct.
	At int
	// IsGo reports whether it is a Go string: the length follows the address, and there is no NUL.
	// IsBytes reports whether it is a slice of bytes, which begins like a string.
	IsGo, IsBytes bool
	// Offset is the offset of the string in the record. A word precedes it: the length, including
	// the NUL in C, or a negative number if the string could not be read.
	Offset, TextSize int
}

// IsGoString reports whether a type is Go's string type, or has the same layout, or describes the
// bytes of a slice or an array.
func IsGoString(t *sdt.Type) bool {
	return isText(t, "str", 16) || IsBytes(t)
}

// IsBytes reports whether a type describes the bytes of a Go slice or array: an address in the
// field bytes, and their number. C has no struct of this size with two such fields.
func IsBytes(t *sdt.Type) bool { return t != nil && isText(t, "bytes", 24) }

// ByteName is the name of the type of the elements of an array of bytes in a function's values. The
// arrays of a probe's structs have elements of the type uint8, which are shown as numbers.
const ByteName = "byte"

// isText reports whether a type has a pointer of a name, and then a length.
func isText(t *sdt.Type, name string, size int64) bool {
	if t.Kind != sdt.KindStruct || t.Size != size || len(t.Fields) != 2 {
		return false
	}
	first, second := t.Fields[0], t.Fields[1]
	return first.Name == name && first.Type != nil && first.Type.Kind == sdt.KindPointer &&
		second.Name == "len" && second.Offset == 8
}
