package render

import (
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/event"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
)

// AppendText appends a value for people.
func AppendText(to []byte, i *event.Item, v *event.Value) []byte {
	switch {
	case i.Unreadable != nil:
		return append(to, "<unavailable>"...)
	case v.Type.Kind == expr.String && v.Bits == 0 && !i.IsGo:
		return append(to, "<null>"...)
	case v.Missing && v.Type.Kind == expr.String:
		return fmt.Appendf(to, "<unreadable %#x>", v.Bits)
	case v.Missing:
		return append(to, "<unreadable>"...)
	case i.Bare:
		return append(to, Printable(string(v.Text))...)
	case v.Type.Kind == expr.String:
		to = appendQuoted(to, v.Text)
		if v.Cut {
			to = append(to, "…"...)
		}
		return to
	case i.Names != nil:
		return append(to, Printable(i.NameOf(v))...)
	case v.Struct != nil:
		f := fields{d: i.Details, v: v}
		return f.structure(to, i.Details.Type, 0)
	case v.Bits == 0 && isOperation(i):
		return append(to, '-')
	}
	if name := i.Constants[v.Bits]; name != "" {
		to = append(append(to, Printable(name)...), " ("...)
		return append(AppendNumber(to, v.Type, v.Bits), ')')
	}
	return AppendNumber(to, v.Type, v.Bits)
}

// isOperation reports whether a value is the ID of another operation, as package span and its
// instrumentations name it. The ID is 0 if there is no such operation, or if its start was not
// traced.
func isOperation(i *event.Item) bool {
	return (i.Name == "parent" || i.Name == "span") && i.Type == expr.Type{Kind: expr.Uint, Size: 8}
}

// AppendNumber appends a number or a bool of an event for people.
func AppendNumber(to []byte, t expr.Type, bits uint64) []byte {
	return kind.AppendText(to, t.Kind, t.Unit, t.Size, wide(t, bits))
}

// AppendJSON appends a value as JSON. An unreadable value becomes null.
func AppendJSON(to []byte, i *event.Item, v *event.Value) []byte {
	switch {
	case isNull(i, v):
		return append(to, "null"...)
	case v.Type.Kind == expr.String:
		return AppendJSONString(to, v.Text)
	case i.Names != nil:
		return AppendJSONString(to, i.NameOf(v))
	case v.Struct != nil:
		f := fields{d: i.Details, v: v, json: true}
		return f.structure(to, i.Details.Type, 0)
	}
	return AppendJSONNumber(to, v.Type, v.Bits)
}

// isNull reports whether JSON has no value for an unreadable one, or a null pointer to a string.
func isNull(i *event.Item, v *event.Value) bool {
	return i.Unreadable != nil || v.Missing || v.Type.Kind == expr.String && v.Bits == 0 && !i.IsGo
}

// AppendJSONNumber is AppendNumber as JSON.
func AppendJSONNumber(to []byte, t expr.Type, bits uint64) []byte {
	return kind.AppendJSON(to, t.Kind, t.Unit, t.Size, wide(t, bits))
}

// wide returns the bits of a number, which for a float are those of a float64.
func wide(t expr.Type, bits uint64) uint64 {
	if t.Kind == expr.Float {
		return math.Float64bits(event.Value{Type: t, Bits: bits}.Float())
	}
	return bits
}

// AppendJSONString appends a JSON string, and escapes unprintable characters: terminals obey U+009B
// as ESC [. Bytes that are not UTF-8 become U+FFFD.
func AppendJSONString[T ~string | ~[]byte](to []byte, text T) []byte {
	to = append(to, '"')
	for rest := []byte(text); ; {
		n := plainLen(rest)
		to, rest = append(to, rest[:n]...), rest[n:]
		if len(rest) == 0 {
			return append(to, '"')
		}
		r, size := utf8.DecodeRune(rest)
		switch rest = rest[size:]; r {
		case '"', '\\':
			to = append(to, '\\', byte(r))
		case '\n':
			to = append(to, '\\', 'n')
		default:
			to = appendJSONRune(to, r)
		}
	}
}

// appendQuoted is strconv.AppendQuote.
func appendQuoted(to, text []byte) []byte {
	if plainLen(text) < len(text) {
		return strconv.AppendQuote(to, string(text))
	}
	return append(append(append(to, '"'), text...), '"')
}

// plainLen returns the number of bytes at the beginning of text that no notation escapes: those of
// printable ASCII other than quotes and backslashes.
func plainLen(text []byte) int {
	for i, c := range text {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return i
		}
	}
	return len(text)
}

// appendJSONRune appends a rune of a JSON string.
func appendJSONRune(to []byte, r rune) []byte {
	if strconv.IsPrint(r) { // as unicode.IsPrint, which takes longer
		return utf8.AppendRune(to, r)
	}
	if high, low := utf16.EncodeRune(r); low != utf8.RuneError {
		return appendHex(appendHex(to, high), low)
	}
	return appendHex(to, r)
}

// appendHex appends 16 bits as JSON escapes them.
func appendHex(to []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	return append(to, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}
