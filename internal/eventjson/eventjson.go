// Package eventjson writes events as JSON, for the packages that export them. It is not part
// of the root package, so that programs without them do not contain it.
//
// An event is one object:
//
//	{"time":"2026-01-02T15:04:05.123456789Z","provider":"myapp","probe":"request__done","pid":4711,"args":{"path":"/","status":200}}
//
// time is RFC 3339 with nanoseconds, in UTC. args has the arguments in their order, by their
// names, or by arg0, arg1 and so on if they have none. Integers are numbers, and durations numbers
// of nanoseconds. Times are strings like time. NaN and the infinities, which JSON does not have as
// numbers, are strings ("NaN", "+Inf", "-Inf"), and so are pointers ("0xc000012345"). In a string,
// bytes that are not UTF-8 become U+FFFD.
package eventjson

import (
	"fmt"
	"math"
	"os"
	"time"
	"unicode/utf8"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/described"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/timestamp"
)

// Encoder writes events of this process. It relates their times, which are monotonic, to the time
// of day when it was made, so that a long-lived Encoder does not follow changes of the clock. It
// is not safe for concurrent use.
type Encoder struct {
	epoch time.Time // when the monotonic clock was 0
	time  timestamp.Formatter
	heads map[*stapsdt.Probe]*Head
}

// NewEncoder returns an encoder.
func NewEncoder() *Encoder {
	return &Encoder{
		epoch: time.Now().Add(-clock.Now()).Round(0).UTC(),
		time:  Times(),
		heads: map[*stapsdt.Probe]*Head{},
	}
}

// Append appends an event to dst as JSON, without a newline. It cuts strings of more than most
// bytes.
func (enc *Encoder) Append(dst []byte, e *stapsdt.Event, most int) []byte {
	h := enc.head(e.Probe())
	dst = h.Begin(dst, &enc.time, enc.epoch.Add(e.Time()))
	for i := range e.NumArgs() {
		switch v := e.Arg(i); v.Kind() {
		case stapsdt.KindString:
			dst = h.Text(dst, i, Cut(v.String(), most))
		case stapsdt.KindFloat64:
			dst = h.Number(dst, i, math.Float64bits(v.Float64()))
		default:
			dst = h.Number(dst, i, v.Uint64())
		}
	}
	return append(dst, "}}"...)
}

// Cut shortens a text to a number of bytes, but not within a character. A text that was cut ends in
// "…".
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	n := most
	for n > most-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// head returns the JSON that the events of a probe have in common.
func (enc *Encoder) head(p *stapsdt.Probe) *Head {
	h := enc.heads[p]
	if h == nil {
		h = NewHead(described.Probe(p), os.Getpid())
		enc.heads[p] = h
	}
	return h
}

// Head holds the JSON that all events of a probe have in common.
type Head struct {
	text   []byte // the text after the time
	args   []recording.Arg
	fields [][]byte // the text before each argument: a comma, its name and a colon
}

// NewHead returns the Head of a probe's events in a process.
func NewHead(p *recording.Probe, pid int) *Head {
	provider, probe := AppendString(nil, p.Provider), AppendString(nil, p.Name)
	h := &Head{text: fmt.Appendf(nil, `Z","provider":%s,"probe":%s,"pid":%d,"args":{`, provider, probe, pid), args: p.Args}
	for i, a := range p.Args {
		var field []byte
		if i > 0 {
			field = append(field, ',')
		}
		h.fields = append(h.fields, append(AppendString(field, a.Name), ':'))
	}
	return h
}

// Times returns the formatter for the times of events, which the events of all probes share.
func Times() timestamp.Formatter { return timestamp.Formatter{Layout: timestamp.DateTime} }

// Begin appends the part of an event before its arguments. The caller appends each argument, and
// then }}.
func (h *Head) Begin(dst []byte, times *timestamp.Formatter, at time.Time) []byte {
	dst = times.Append(append(dst, `{"time":"`...), at.UTC())
	return append(dst, h.text...)
}

// Text appends the i-th argument, a string.
func (h *Head) Text(dst []byte, i int, text string) []byte {
	return AppendString(append(dst, h.fields[i]...), text)
}

// Number appends the i-th argument, which is not a string. bits is its number, with its
// sign extended, or the bits of a float64.
func (h *Head) Number(dst []byte, i int, bits uint64) []byte {
	a := &h.args[i]
	row, dst := a.Kind.Row(), append(dst, h.fields[i]...)
	return kind.AppendJSON(dst, row.Class, row.Unit, row.Class.Size(a.Type), bits)
}

// AppendString appends a string of JSON. Like encoding/json, it escapes characters that are
// special in HTML and JavaScript.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(dst, "\ufffd"...)
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r < ' ' || r == 0x7f || r == '<' || r == '>' || r == '&' || r == '\u2028' ||
			r == '\u2029':
			dst = append(dst, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
		default:
			dst = append(dst, s[:size]...)
		}
		s = s[size:]
	}
	return append(dst, '"')
}
