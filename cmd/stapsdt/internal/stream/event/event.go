// Package event decodes the values of events.
package event

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/clock"
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
func (e *Event) Comm() []byte { return cString(e.Raw[EventComm:EventMissing]) }

func cString(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

// Value is a value of an event.
type Value struct {
	Type expr.Type
	// Bits are the bits of a number or a bool, or the address of a string.
	Bits uint64
	Text []byte
	// Cut means that the string is longer.
	Cut bool
	// Struct is the struct to which the value points. It is nil if it could not be read or was
	// not requested. Texts are its strings.
	Struct []byte
	Texts  []Text
	// Missing means that the memory of the value could not be read.
	Missing bool
}

// Text is a string of a struct.
type Text struct {
	Text         []byte
	Cut, Missing bool
}

// NameOf returns the name that a number has. The name of the type of an error is followed by its
// text, if this was read.
func (i *Item) NameOf(v *Value) string {
	name := i.Names.NameOf(v.Bits)
	if len(v.Texts) == 0 || v.Texts[0].Missing {
		return name
	}
	name += " " + strconv.Quote(string(v.Texts[0].Text))
	if v.Texts[0].Cut {
		name += "…"
	}
	return name
}

// Float returns the value of a float.
func (v Value) Float() float64 {
	if v.Type.Size == 4 {
		return float64(math.Float32frombits(uint32(v.Bits)))
	}
	return math.Float64frombits(v.Bits)
}

// Value returns the i-th item of a record.
func (e *Event) Value(items []Item, i int) Value {
	item := &items[i]
	v := Value{Type: item.Type}
	raw := e.Raw[item.Offset:][:item.Size]
	v.Missing = binary.NativeEndian.Uint64(e.Raw[EventMissing:])>>i&1 != 0
	if item.Unreadable != nil {
		return v
	}
	if v.Missing && item.Type.Kind != expr.String {
		return v
	}
	v.Bits = binary.NativeEndian.Uint64(raw)
	if item.Type.Kind == expr.String && !v.Missing {
		length := int(binary.NativeEndian.Uint64(raw[8:])) // with the NUL
		v.Text = raw[TextHeader:][:min(length, len(raw)-TextHeader)]
		if item.IsGo {
			v.Text = v.Text[:max(len(v.Text)-1, 0)]
		} else {
			v.Text = cString(v.Text)
		}
		if item.IsBytes {
			v.Text, v.Cut = Bytes(v.Text, item.TextSize)
		} else if v.Cut = len(v.Text) > item.TextSize; v.Cut {
			v.Text = WholeRunes(v.Text[:item.TextSize])
		}
	}
	if d := item.Details; d != nil && binary.NativeEndian.Uint64(e.Raw[d.Offset-8:]) == 0 {
		v.Struct = e.Raw[d.Offset:][:d.Size]
		for _, t := range d.Texts {
			v.Texts = append(v.Texts, e.detail(t))
		}
	}
	return v
}

// SetText sets the i-th item of a record, a string.
func (e *Event) SetText(items []Item, i int, text string) {
	item := &items[i]
	raw := e.Raw[item.Offset:][:item.Size]
	n := copy(raw[TextHeader:][:item.TextSize+1], text) // a longer string counts as cut
	raw[TextHeader+n] = 0
	binary.NativeEndian.PutUint64(raw, 1) // not null
	binary.NativeEndian.PutUint64(raw[8:], uint64(n+1))
	missing := e.Raw[EventMissing:]
	binary.NativeEndian.PutUint64(missing, binary.NativeEndian.Uint64(missing)&^(1<<i))
}

// Second returns the second word of the i-th item of a record. The item must have two words.
func (e *Event) Second(items []Item, i int) uint64 {
	return binary.NativeEndian.Uint64(e.Raw[items[i].Offset+8:])
}

func (e *Event) detail(d DetailText) Text {
	length := int64(binary.NativeEndian.Uint64(e.Raw[d.Offset-8:]))
	if length < 0 {
		return Text{Missing: true}
	}
	text := e.Raw[d.Offset:][:min(length, int64(d.TextSize)+1)]
	if !d.IsGo {
		text = cString(text)
	}
	if d.IsBytes {
		text, cut := Bytes(text, d.TextSize)
		return Text{Text: text, Cut: cut}
	}
	if len(text) <= d.TextSize {
		return Text{Text: text}
	}
	return Text{Text: WholeRunes(text[:d.TextSize]), Cut: true}
}

// Clock finds the time of day of events. Its zero value is ready to use.
type Clock struct {
	boot  time.Time     // the time of day at which CLOCK_MONOTONIC began
	asked time.Duration // when boot was determined
}

const (
	clockInterval = time.Second
	clockError    = time.Millisecond
)

// At returns the time of day of a time by CLOCK_MONOTONIC. It reads both clocks again after a second, because the time of day can be set, and
// because the other clock stops while the machine is suspended. Smaller differences between the clocks are ignored, so that events keep their
// distances.
func (c *Clock) At(t time.Duration) time.Time {
	if c.boot.IsZero() || t-c.asked >= clockInterval {
		c.asked = clock.Now()
		c.adjust(time.Now().Round(0).Add(-c.asked))
	}
	return c.boot.Add(t)
}

func (c *Clock) adjust(boot time.Time) {
	if c.boot.IsZero() || boot.Sub(c.boot).Abs() > clockError {
		c.boot = boot
	}
}
