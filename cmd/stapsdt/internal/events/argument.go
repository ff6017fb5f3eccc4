//go:build linux

package events

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/remote"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// word returns an argument, or the length of a string.
func (k *kernel) word(e *event.Event, s *tracedProbe, i int) uint64 {
	v := e.Value(s.shown.all, i)
	isText := s.probe.Args[i].Kind == recording.String
	item := &s.shown.items[i]
	if v.Missing && item.Unreadable == nil && (!isText || v.Bits != 0 || item.Names != nil) { // not a null pointer
		k.unreadable++
	}
	switch {
	case isText:
		return uint64(len(k.text(e, s, i)))
	case v.Missing:
		return 0
	}
	return v.Bits
}

// text returns a string argument. A string that was cut ends in an ellipsis.
func (k *kernel) text(e *event.Event, s *tracedProbe, i int) []byte {
	v, item := e.Value(s.shown.all, i), &s.shown.items[i]
	switch {
	case item.Unreadable != nil:
		return []byte("<unavailable>")
	case v.Missing && (v.Bits != 0 || item.Names != nil):
		return []byte("<unreadable>")
	case item.Names != nil:
		return []byte(item.Names.NameOf(v.Bits))
	case v.Cut:
		return append(v.Text[:len(v.Text):len(v.Text)], "…"...)
	}
	return v.Text
}

// appendText appends a string to the body of a record.
func appendText(body, text []byte) []byte {
	body = append(body, text...)
	return append(body, make([]byte, (len(text)+8)&^7-len(text))...)
}

// ArgOf describes the values of an item as a recording would. An item that can never be read becomes a string that says so.
func ArgOf(item *layout.Item) recording.Arg {
	a := recording.Arg{Name: item.Name, Type: int8(item.Type.Size), Kind: recording.Uint64}
	switch {
	case item.Type.Kind == expr.String, item.Names != nil, item.Unreadable != nil:
		a.Type, a.Kind = recording.TypeString, recording.String
	case item.Type.Kind == expr.Float:
		a.Type, a.Kind = int8(recording.TypeFloat32-4+item.Type.Size), recording.Float64
	case item.Type.Kind == expr.Bool:
		a.Kind = recording.Bool
	case item.Type.Duration:
		a.Type, a.Kind = -a.Type, recording.Duration
	case item.Type.Kind == expr.Int:
		a.Type, a.Kind = -a.Type, recording.Int64
	case item.IsPointer():
		a.Kind = recording.Pointer
	}
	return a
}

// body returns the body of the record for an event, with as many arguments as the probe has.
func body(probe *recording.Probe, args []remote.Value) (words []byte) {
	var texts []byte
	for i, a := range probe.Args {
		word, v := uint64(0), args[i]
		text, isText := v.V.(string)
		switch {
		case a.Kind == recording.String:
			word, texts = uint64(len(text)), appendText(texts, []byte(text))
		case a.Kind == recording.Float64:
			f, _ := strconv.ParseFloat(strings.TrimPrefix(fmt.Sprint(v.V), "+"), 64)
			if word = math.Float64bits(f); a.Type == recording.TypeFloat32 {
				word = uint64(math.Float32bits(float32(f)))
			}
		case isText: // an address
			word, _ = strconv.ParseUint(text, 0, 64)
		case a.Kind == recording.Bool && v.V == true:
			word = 1
		default:
			word = integer(v.V)
		}
		words = binary.LittleEndian.AppendUint64(words, word)
	}
	return append(words, texts...)
}

// integer converts a JSON number to the bits of an integer.
func integer(v any) uint64 {
	n, _ := v.(json.Number)
	if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return uint64(i)
	}
	u, _ := strconv.ParseUint(string(n), 10, 64)
	return u
}
