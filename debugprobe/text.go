package debugprobe

import (
	"math"
	"unicode/utf8"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventjson"
)

// maxText is the largest number of bytes of a string that is shown. Longer ones are cut, and
// end in "…".
const maxText = 1024

// appendEvent appends an event as a JSON object without line breaks.
func appendEvent(b []byte, enc *eventjson.Encoder, e *stapsdt.Event) []byte {
	head := enc.Head(e.Probe())
	b = head.Begin(b, enc.Time(e))
	for i := range e.NumArgs() {
		b = head.Field(b, i)
		switch v := e.Arg(i); v.Kind() {
		case stapsdt.KindString:
			b = eventjson.AppendString(b, cut(v.String(), maxText))
		case stapsdt.KindFloat64:
			b = eventjson.AppendNumber(b, v.Kind(), math.Float64bits(v.Float64()))
		default:
			b = eventjson.AppendNumber(b, v.Kind(), v.Uint64())
		}
	}
	return append(b, "}}"...)
}

// cut shortens a text to a number of bytes, but not within a character.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	n := most
	for n > most-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
