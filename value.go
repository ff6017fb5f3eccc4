package stapsdt

import (
	"cmp"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/kind"
)

// Kind is the kind of a Value.
type Kind uint8

// The kinds of values, and the types of arguments that have them. An argument of a probe that
// AddProbe defined is a KindInt64, KindUint64, KindFloat64, KindString or KindTime.
const (
	KindInvalid  Kind = iota // the kind of the zero Value
	KindInt64                // int8 to int64, int
	KindUint64               // uint8 to uint64, uint, uintptr
	KindFloat64              // float32, float64
	KindString               // string, []byte
	KindBool                 // bool
	KindDuration             // time.Duration
	KindPointer              // unsafe.Pointer, and pointers in the struct of a ProbeOf
	KindTime                 // time.Time
)

// They are those of package kind, which are in the same order.
var _ [0]struct{} = [KindInt64 - Kind(kind.Int64) + KindTime - Kind(kind.Time)]struct{}{}

// String returns the name of the kind's type in Go: int64, time.Duration and so on.
func (k Kind) String() string {
	if k == KindInvalid {
		return "invalid"
	}
	if name := kind.Kind(k).Row().Name; name != "" {
		return name
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// Value is the value of an event's argument. Making one does not allocate. The zero Value
// is of KindInvalid, and its methods return zero values.
type Value struct {
	kind Kind
	size uint8  // of a number in bytes, or 0 for 8
	num  uint64 // the number, with its sign extended, or the bits of the float64
	text string
}

// float32Value returns the Value of a Float32, from its bits.
func float32Value(bits uint64) Value {
	f := float64(math.Float32frombits(uint32(bits)))
	return Value{kind: KindFloat64, size: 4, num: math.Float64bits(f)}
}

// kindOf returns the kind of an argument's values, by its Go type or by its ArgType.
func (p *Probe) kindOf(i int) Kind {
	if p.types != nil {
		switch typ := p.types[i]; {
		case typ == reflect.TypeFor[time.Duration]():
			return KindDuration
		case typ.Kind() == reflect.Bool:
			return KindBool
		case typ.Kind() == reflect.UnsafePointer, typ.Kind() == reflect.Pointer:
			return KindPointer
		}
	}
	switch t := p.args[i]; {
	case t == String:
		return KindString
	case t.float():
		return KindFloat64
	case t == Time:
		return KindTime
	case t.Signed():
		return KindInt64
	}
	return KindUint64
}

// Kind returns the value's kind.
func (v Value) Kind() Kind { return v.kind }

// Int64 returns an integer, a duration in nanoseconds, a time in nanoseconds since the beginning
// of 1970 in UTC, a bool (1 for true), the address of a pointer, or a floating-point number
// without its fraction. It returns 0 for a string. It converts numbers as Go's int64(x) does: a
// uint64 above 1<<63-1 becomes negative.
func (v Value) Int64() int64 {
	if v.kind == KindFloat64 {
		return int64(math.Float64frombits(v.num))
	}
	return int64(v.num)
}

// Uint64 is like Int64, but converts numbers as Go's uint64(x) does.
func (v Value) Uint64() uint64 {
	if v.kind == KindFloat64 {
		return uint64(math.Float64frombits(v.num))
	}
	return v.num
}

// Float64 is like Int64, but converts numbers as Go's float64(x) does: a fraction is kept.
func (v Value) Float64() float64 {
	switch kind.Kind(v.kind).Row().Class {
	case kind.Float:
		return math.Float64frombits(v.num)
	case kind.Int:
		return float64(int64(v.num))
	}
	return float64(v.num)
}

// Bool reports whether the value is true, or a number or an address other than 0. It returns false
// for a string.
func (v Value) Bool() bool {
	if v.kind == KindFloat64 {
		return v.Float64() != 0
	}
	return v.num != 0
}

// Duration returns Int64 as a duration.
func (v Value) Duration() time.Duration { return time.Duration(v.Int64()) }

// Time returns Int64 as a time, in UTC. The smallest integer, which stands for every earlier time,
// becomes the zero Time.
func (v Value) Time() time.Time { return kind.ToTime(v.Int64()) }

// Pointer returns the address that a pointer held, or Uint64 as a uintptr. The object at that
// address may have been moved or freed since.
func (v Value) Pointer() uintptr { return uintptr(v.Uint64()) }

// String returns a string itself, a pointer as a hexadecimal number, a time in the notation of
// RFC 3339, and any other value as fmt.Print prints a value of its Go type. A string of an Event
// that is not a Clone is valid until the observer returns.
func (v Value) String() string {
	row := kind.Kind(v.kind).Row()
	if row.Class == kind.Text {
		return v.text
	}
	return string(kind.AppendText(nil, row.Class, row.Unit, cmp.Or(int(v.size), 8), v.num))
}

// Any returns the value as an int64, uint64, float64, string, bool, time.Duration, time.Time or,
// for a pointer, uintptr. It returns nil for the zero Value. A string is a copy, which stays valid.
func (v Value) Any() any {
	switch v.kind {
	case KindInt64:
		return v.Int64()
	case KindUint64:
		return v.num
	case KindFloat64:
		return v.Float64()
	case KindString:
		return strings.Clone(v.text)
	case KindBool:
		return v.Bool()
	case KindDuration:
		return v.Duration()
	case KindPointer:
		return v.Pointer()
	case KindTime:
		return v.Time()
	}
	return nil
}
