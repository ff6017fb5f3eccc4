// Package eventjson writes events as JSON, for the packages that export them. It is not part
// of the root package, so that programs without them do not contain it.
//
// An event is one object:
//
//	{"time":"2026-01-02T15:04:05.123456789Z","provider":"myapp","probe":"request__done","pid":4711,"args":{"path":"/","status":200}}
//
// time is RFC 3339 with nanoseconds, in UTC. args has the arguments in their order, by their
// names, or by arg0, arg1 and so on if they have none. Integers are numbers, and durations
// numbers of nanoseconds. NaN and the infinities, which JSON does not have as numbers, are
// strings ("NaN", "+Inf", "-Inf"), and so are pointers ("0xc000012345"). In a string, bytes
// that are not UTF-8 become U+FFFD.
package eventjson

import (
	"math"
	"os"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/clock"
)

// Encoder writes events. It relates their times, which are monotonic, to the time of day when
// it was made, so that a long-lived one does not follow changes of the clock. It is not safe
// for concurrent use.
type Encoder struct {
	pid   int
	epoch time.Time // when the monotonic clock was 0
	// heads are the beginnings of the objects that follow the time, by probe.
	heads map[*stapsdt.Probe]*head
}

// head holds the JSON that all events of a probe have in common.
type head struct {
	text   []byte   // from the provider on
	fields [][]byte // before each argument: a comma, its name and a colon
}

// NewEncoder returns an encoder for events of this process.
func NewEncoder() *Encoder {
	return &Encoder{
		pid:   os.Getpid(),
		epoch: time.Now().Add(-clock.Now()).Round(0).UTC(),
		heads: map[*stapsdt.Probe]*head{},
	}
}

// Append appends an event to dst as JSON, without a newline.
func (enc *Encoder) Append(dst []byte, e *stapsdt.Event) []byte {
	dst = enc.Begin(dst, e.Probe(), e.Time())
	for i := range e.NumArgs() {
		v := e.Arg(i)
		dst = enc.Field(dst, e.Probe(), i)
		switch v.Kind() {
		case stapsdt.KindString:
			dst = AppendString(dst, v.String())
		case stapsdt.KindFloat64:
			dst = AppendNumber(dst, v.Kind(), math.Float64bits(v.Float64()))
		default:
			dst = AppendNumber(dst, v.Kind(), v.Uint64())
		}
	}
	return append(dst, "}}"...)
}

// Begin appends what precedes the arguments of an event. The caller appends each argument
// after its Field, and then }}.
func (enc *Encoder) Begin(dst []byte, p *stapsdt.Probe, at time.Duration) []byte {
	dst = append(dst, `{"time":"`...)
	dst = enc.epoch.Add(at).AppendFormat(dst, "2006-01-02T15:04:05.000000000Z07:00")
	return append(dst, enc.head(p).text...)
}

// Field appends what precedes the i-th argument's value.
func (enc *Encoder) Field(dst []byte, p *stapsdt.Probe, i int) []byte {
	return append(dst, enc.head(p).fields[i]...)
}

// head returns what the events of a probe have in common.
func (enc *Encoder) head(p *stapsdt.Probe) *head {
	if h := enc.heads[p]; h != nil {
		return h
	}
	h, names := new(head), p.ArgNames()
	h.text = append(h.text, `","provider":`...)
	h.text = AppendString(h.text, p.Provider().Name())
	h.text = append(h.text, `,"probe":`...)
	h.text = AppendString(h.text, p.Name())
	h.text = append(h.text, `,"pid":`...)
	h.text = strconv.AppendInt(h.text, int64(enc.pid), 10)
	h.text = append(h.text, `,"args":{`...)
	for i := range p.ArgTypes() {
		name := "arg" + strconv.Itoa(i)
		if names != nil {
			name = names[i]
		}
		var field []byte
		if i > 0 {
			field = append(field, ',')
		}
		h.fields = append(h.fields, append(AppendString(field, name), ':'))
	}
	enc.heads[p] = h
	return h
}

// AppendNumber appends a value of a kind other than string. bits is its number, or the bits of
// a float64.
func AppendNumber(dst []byte, k stapsdt.Kind, bits uint64) []byte {
	switch k {
	case stapsdt.KindInt64, stapsdt.KindDuration:
		return strconv.AppendInt(dst, int64(bits), 10)
	case stapsdt.KindUint64:
		return strconv.AppendUint(dst, bits, 10)
	case stapsdt.KindBool:
		return strconv.AppendBool(dst, bits != 0)
	case stapsdt.KindPointer:
		dst = append(dst, `"0x`...)
		return append(strconv.AppendUint(dst, bits, 16), '"')
	case stapsdt.KindFloat64:
		f := math.Float64frombits(bits)
		if math.IsNaN(f) || math.IsInf(f, 0) {
			dst = append(dst, '"')
			return append(strconv.AppendFloat(dst, f, 'g', -1, 64), '"')
		}
		return strconv.AppendFloat(dst, f, 'g', -1, 64)
	}
	return append(dst, "null"...)
}

// AppendString appends a string of JSON. It escapes what HTML and JavaScript would read as
// their own, as encoding/json does.
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
		case r < ' ' || r == 0x7f || r == '<' || r == '>' || r == '&' || r == '\u2028' || r == '\u2029':
			dst = append(dst, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
		default:
			dst = append(dst, s[:size]...)
		}
		s = s[size:]
	}
	return append(dst, '"')
}
