package render

import (
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
)

// notation is the notation of values.
type notation bool

const (
	forPeople notation = false
	asJSON    notation = true
)

// or returns the character of the notation.
func (n notation) or(forPeople, json byte) byte {
	if n == asJSON {
		return json
	}
	return forPeople
}

// missing appends the placeholder for a value that cannot be shown, which is null in JSON.
func (n notation) missing(to []byte, shown string) []byte {
	if n == asJSON {
		shown = "null"
	}
	return append(to, shown...)
}

// unknown appends a placeholder for a value that is not shown, such as a value beyond the part of a
// large struct that was read.
func (n notation) unknown(to []byte) []byte { return n.missing(to, ellipsis) }

// noText is missing for a string at an address, which is null or cannot be read.
func (n notation) noText(to []byte, address uint64, isGo bool) []byte {
	if n == asJSON || address == 0 && !isGo {
		return n.missing(to, "<null>")
	}
	return fmt.Appendf(to, "<unreadable %#x>", address)
}

// number appends a number or a bool.
func (n notation) number(to []byte, t expr.Type, bits uint64) []byte {
	if t.Kind == expr.Float {
		bits = math.Float64bits(value.Value{Type: t, Bits: bits}.Float())
	}
	if n == asJSON {
		return kind.AppendJSON(to, t.Kind, t.Unit, t.Size, bits)
	}
	return kind.AppendText(to, t.Kind, t.Unit, t.Size, bits)
}

// AppendNumber appends a number or a bool of an event for people.
func AppendNumber(to []byte, t expr.Type, bits uint64) []byte {
	return forPeople.number(to, t, bits)
}

// name appends the name of something.
func (n notation) name(to []byte, name string) []byte {
	if n == asJSON {
		return AppendJSONString(to, name)
	}
	return append(to, Printable(name)...)
}

// text appends a string in quotes. JSON does not show that it was cut.
func (n notation) text(to, text []byte, cut bool) []byte {
	switch {
	case plainLen(text) == len(text):
		to = append(append(append(to, '"'), text...), '"')
	case n == asJSON:
		to = AppendJSONString(to, text)
	default:
		to = strconv.AppendQuote(to, string(text))
	}
	if cut && n == forPeople {
		to = append(to, ellipsis...)
	}
	return to
}

// ellipsis stands for parts that are not shown.
const ellipsis = "…"

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
