// Package value defines the values of events, and describes them.
package value

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Value is a value of an event.
type Value struct {
	Type expr.Type
	// Bits are the bits of a number or a bool, or the address of a string that the kernel has read.
	Bits uint64
	Text []byte
	// Cut means that the string is longer.
	Cut bool
	// Struct is the struct to which the value points. It is nil if it could not be read or was
	// not requested. Texts holds its strings, which Details.Text finds.
	Struct, Texts []byte
	// Missing means that there is no value. The text states the reason. Without a text, a string is
	// null, and another value could not be read.
	Missing bool
}

// Arg describes the values of an item as arguments of an event. A value that can never be read, or
// that has a name, becomes a string that states this. So does a struct, with the value before it.
func (i *Item) Arg() recording.Arg {
	t := i.Type
	bare := i.Bare || i.Names != nil || i.Unreadable != nil
	if bare || i.Details != nil {
		t = expr.Type{Kind: expr.String}
	}
	return recording.Arg{
		Name: i.Name, Type: t.Kind.Type(t.Size), Kind: kind.Of(t.Kind, t.Unit), Bare: bare,
	}
}

// Set sets v to the n-th argument of an event, which an item describes.
func (v *Value) Set(i *Item, e *recording.Event, n int) {
	*v = Value{Type: i.Type, Missing: e.Unreadable>>n&1 != 0}
	if e.Probe.Args[n].Kind != kind.String {
		v.Bits = e.Integer(n)
		return
	}
	v.Text, v.Cut = e.Text(n), e.Cut>>n&1 != 0
	switch {
	case v.Missing:
	case i.Details != nil:
		v.Bits = binary.NativeEndian.Uint64(v.Text)
		v.Struct, v.Texts = i.Details.In(v.Text[8:])
	case i.TextSize > 0 && len(v.Text) > i.TextSize:
		v.Text, v.Cut = Cut(v.Text, i.TextSize)
	}
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
	if v.Struct == nil {
		return name
	}
	text := i.Details.Text(v, 0)
	if text.Missing {
		return name
	}
	name += " " + strconv.Quote(string(text.Text))
	if text.Cut {
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
