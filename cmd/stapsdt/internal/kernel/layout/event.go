package layout

import (
	"encoding/binary"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"
)

// Event is a record of an event. It and its values are valid until the next Read of the ring.
type Event struct {
	// Time is CLOCK_MONOTONIC.
	Time     time.Duration
	ID       uint32 // the ID of the probe
	PID, TID uint32
	// Raw is the record, as the kernel wrote it.
	Raw []byte
}

// Comm returns the name of the thread.
func (e *Event) Comm() []byte { return value.CString(e.Raw[EventComm:EventMissing]) }

// Value returns the i-th item of a record.
func (e *Event) Value(items []value.Item, i int) value.Value {
	item := &items[i]
	v := value.Value{Type: item.Type, Missing: e.Missing()>>i&1 != 0}
	isText := item.Type.Kind == expr.String
	if item.Unreadable != nil || v.Missing && !isText {
		return v
	}
	if v.Bits = e.Word(item); isText && !v.Missing {
		v.Text, v.Cut = e.Text(item)
	}
	if item.Details != nil {
		v.Struct, v.Texts = item.Details.In(e.Part(item)[8:])
	}
	return v
}

// Missing returns the set of the items that could not be read.
func (e *Event) Missing() uint64 { return binary.NativeEndian.Uint64(e.Raw[EventMissing:]) }

// Part returns the part of the record that holds an item.
func (e *Event) Part(item *value.Item) []byte { return e.Raw[item.Offset:][:item.Size] }

// Word returns the word at the beginning of an item: a number, or the address of a string.
func (e *Event) Word(item *value.Item) uint64 {
	return binary.NativeEndian.Uint64(e.Raw[item.Offset:])
}

// Text returns an item that is a string, and whether the string was cut.
func (e *Event) Text(item *value.Item) (text []byte, cut bool) {
	part := e.Part(item)
	length := int(binary.NativeEndian.Uint64(part[8:])) // with the NUL
	if item.IsGo {
		length = max(length-1, 0)
	}
	text = part[TextHeader:][:min(length, len(part)-TextHeader)]
	return value.Read(text, item.IsGo, item.IsBytes, item.TextSize)
}

// SetText sets the i-th item of a record, a string.
func (e *Event) SetText(items []value.Item, i int, text string) {
	item := &items[i]
	raw := e.Raw[item.Offset:][:item.Size]
	n := copy(raw[TextHeader:][:item.TextSize+1], text) // a longer string counts as cut
	raw[TextHeader+n] = 0
	binary.NativeEndian.PutUint64(raw, 1) // not null
	binary.NativeEndian.PutUint64(raw[8:], uint64(n+1))
	binary.NativeEndian.PutUint64(e.Raw[EventMissing:], e.Missing()&^(1<<i))
}

// Second returns the second word of the i-th item of a record. The item must have two words.
func (e *Event) Second(items []value.Item, i int) uint64 {
	return binary.NativeEndian.Uint64(e.Raw[items[i].Offset+8:])
}

// The header of an event's record. The items follow it.
const (
	EventTime    = 0  // CLOCK_MONOTONIC, in nanoseconds
	EventID      = 8  // the ID of the probe; nothing is in the next 4 bytes
	EventPID     = 16 // the thread, followed by the process
	EventComm    = 24 // the name of the thread
	EventMissing = 40 // the set of items that could not be read
	EventHeader  = 48
)

// CommSize is the size of the name of a thread.
const CommSize = 16

var _ [CommSize]byte = [EventMissing - EventComm]byte{}

// TextHeader is the size of the header before the bytes of a string in a record.
const TextHeader = 16
