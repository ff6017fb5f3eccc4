package evaluate

import (
	"encoding/binary"
	"encoding/json"
	"math"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Value is a value in a row. As in the kernel's tables, only the beginning of a string is kept.
type Value struct {
	Item *value.Item // nil if there is no value
	Bits uint64
	Text string
	Cut  bool
	// Missing means that there is no value. Text states the reason, as in an event.
	Missing bool
}

// argument returns the i-th argument of an event, which an item describes.
func argument(item *value.Item, e *recording.Event, i int) (v Value) {
	v.setArgument(item, e, i)
	return v
}

// setArgument is argument for a value that may have held another before. It keeps the memory of an
// equal text.
func (v *Value) setArgument(item *value.Item, e *recording.Event, i int) {
	before := v.Text
	*v = Value{Item: item, Missing: e.Unreadable>>i&1 != 0}
	switch {
	case item.Type.IsInteger():
		v.Bits = e.Integer(i)
	case item.Type.Kind != expr.String:
		v.Bits = Bits(item.Type, Variable(e, i))
	default:
		text, cut := value.Cut(e.Text(i), item.TextSize)
		v.Cut = cut || e.Cut>>i&1 != 0
		if v.Text = before; before != string(text) {
			v.Text = string(text)
		}
	}
}

// newValue returns a value in a key. A text that has all of the room counts as cut, as in the
// kernel's keys, because a longer text has the same key.
func newValue(item *value.Item, one expr.Value) Value {
	if item.Type.Kind != expr.String {
		return Value{Item: item, Bits: Bits(item.Type, one)}
	}
	v := Value{Item: item, Text: one.Text()}
	if len(v.Text) >= item.TextSize {
		v.Text, v.Cut = string(value.WholeRunes([]byte(v.Text[:item.TextSize]))), true
	}
	return v
}

// ValueIn returns the value of an item in a key, or in another part of a table.
func ValueIn(item *value.Item, key []byte) Value {
	bits, text, cut := item.In(key)
	return Value{Item: item, Bits: bits, Text: string(text), Cut: cut}
}

// ForText formats the value for a table.
func (v *Value) ForText() string {
	return string(render.AppendText(nil, v.Item, v.ofEvent()))
}

// ForJSON formats the value as JSON.
func (v *Value) ForJSON() json.RawMessage { return render.AppendJSON(nil, v.Item, v.ofEvent()) }

// ofEvent returns the value in the form of an event's value.
func (v *Value) ofEvent() *value.Value {
	return &value.Value{
		Type: v.Item.Type, Bits: v.Bits, Text: []byte(v.Text), Cut: v.Cut, Missing: v.Missing,
	}
}

// Look tells apart values with the same bits that look different: one that is missing is not 0, and
// programs of several versions may have the same probe with arguments of other types.
func (v *Value) Look() uint16 {
	if v.Item == nil {
		return math.MaxUint16
	}
	of := v.Item.Type
	if of.Kind == expr.Uint && int64(v.Bits) >= 0 {
		of.Kind = expr.Int
	}
	look := uint16(of.Kind)<<8 | uint16(of.Unit)
	if v.Missing {
		look |= 1 << 15
	}
	return look
}

// AppendKey appends bytes that distinguish the value from others.
func (v *Value) AppendKey(to []byte) []byte {
	to = binary.NativeEndian.AppendUint16(to, v.Look())
	to = binary.NativeEndian.AppendUint64(to, v.Bits)
	to = binary.NativeEndian.AppendUint64(to, uint64(len(v.Text)))
	return append(to, v.Text...)
}
