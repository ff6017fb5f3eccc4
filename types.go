package stapsdt

import (
	"math"
	"reflect"
	"strconv"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/kind"
)

// The limits of a probe's arguments.
const (
	// MaxArgs is the largest number of arguments of a probe. It is SystemTap's limit.
	MaxArgs = 12
	// MaxString is the largest number of bytes of a string that a tracer can see,
	// including the NUL at its end. Longer strings are cut.
	MaxString = 4096
)

// ArgType is the type of a probe's argument, as a tracer sees it. The values are the same as in
// libstapsdt's ArgType_t: the size in bytes, negative for a signed type. String is the sdt_string
// of the C library. Time, Float32 and Float64 are additions. The zero ArgType is invalid.
type ArgType int8

// The types of arguments.
const (
	noArg  ArgType = 0
	Uint8  ArgType = 1
	Int8   ArgType = -1
	Uint16 ArgType = 2
	Int16  ArgType = -2
	Uint32 ArgType = 4
	Int32  ArgType = -4
	Uint64 ArgType = 8
	Int64  ArgType = -8

	// String is the address of NUL-terminated bytes. A tracer sees an unsigned
	// integer of 8 bytes, and reads the bytes at this address while the probe fires:
	// str(arg0) in bpftrace.
	String ArgType = 16

	// Time is a time.Time. A tracer sees a signed integer of 8 bytes: the nanoseconds since
	// the beginning of 1970 in UTC, which cover the years 1678 to 2261. An earlier time, such as
	// the zero Time, becomes the smallest integer, and a later one the largest.
	Time ArgType = 16 + 8

	// Float32 and Float64 are floating-point numbers. They are passed like integers,
	// because notes cannot describe floating-point registers to every tracer: a tracer
	// sees an unsigned integer with the bits of the number (math.Float32bits and
	// math.Float64bits).
	Float32 ArgType = 32 + 4
	Float64 ArgType = 32 + 8
)

// Size returns the size in bytes of the value that a tracer sees. It is 0 for an
// invalid ArgType.
func (t ArgType) Size() int {
	switch t {
	case Uint8, Int8:
		return 1
	case Uint16, Int16:
		return 2
	case Uint32, Int32, Float32:
		return 4
	case Uint64, Int64, String, Time, Float64:
		return 8
	}
	return 0
}

// float reports whether t is a floating-point number.
func (t ArgType) float() bool { return t == Float32 || t == Float64 }

// Signed reports whether tracers read the value as a signed integer.
func (t ArgType) Signed() bool { return t == Time || t < 0 && t.Size() > 0 }

// String returns the name of the type in Go. The names of integers are also their names in
// libstapsdt.
func (t ArgType) String() string {
	switch {
	case t == noArg:
		return "noarg"
	case t == String:
		return "string"
	case t == Time:
		return kind.TimeName
	case t.Size() == 0:
		return "ArgType(" + strconv.Itoa(int(t)) + ")"
	case t.float():
		return "float" + strconv.Itoa(8*t.Size())
	case t.Signed():
		return "int" + strconv.Itoa(8*t.Size())
	}
	return "uint" + strconv.Itoa(8*t.Size())
}

// goTypes has, at index 8+t, a value of the Go type that has the name of the ArgType t, but for
// Time a struct, as which package dwarf knows it.
var goTypes = [...]any{
	8 + Uint8: uint8(0), 8 + Uint16: uint16(0), 8 + Uint32: uint32(0), 8 + Uint64: uint64(0),
	8 + Int8: int8(0), 8 + Int16: int16(0), 8 + Int32: int32(0), 8 + Int64: int64(0),
	8 + Float32: float32(0), 8 + Float64: float64(0), 8 + String: "", 8 + Time: struct{}{},
}

// goType returns the Go type that has the name of a valid ArgType.
func goType(t ArgType) reflect.Type { return reflect.TypeOf(goTypes[8+t]) }

// valid reports whether an argument of a probe can have the type.
func (t ArgType) valid() bool { return t.Size() > 0 }

// note returns the type in the notation of a note.
func (t ArgType) note() int8 {
	if t.Signed() {
		return -int8(t.Size())
	}
	return int8(t.Size())
}

// holdsInt reports whether the type can hold v without changing it.
func (t ArgType) holdsInt(v int64) bool {
	bits := 8 * t.Size()
	if t.Signed() {
		return v<<(64-bits)>>(64-bits) == v
	}
	return v >= 0 && t.holdsUint(uint64(v))
}

// holdsUint is holdsInt for an unsigned value.
func (t ArgType) holdsUint(v uint64) bool {
	bits := 8 * t.Size()
	if t.Signed() {
		bits--
	}
	return bits == 64 || v>>bits == 0
}

// argKind is the way in which an argument of Fire is passed.
type argKind int

const (
	badArg     argKind = iota // not passed: its ArgType cannot hold it
	wordArg                   // passed as 64 bits
	textArg                   // passed as the address of a copy of its text
	pointerArg                // passed as the pointer itself
)

// word converts an argument of Fire into the 64 bits that a tracer sees, or into the text
// whose address the tracer sees.
func (t ArgType) word(arg any) (w uint64, text string, kind argKind) {
	if t == String {
		return textWord(arg)
	}
	if t.float() {
		return t.floatWord(arg)
	}
	if t == Time {
		return timeWord(arg)
	}
	fits := false
	switch v := arg.(type) {
	case int:
		w, fits = uint64(v), t.holdsInt(int64(v))
	case int64:
		w, fits = uint64(v), t.holdsInt(v)
	case int32:
		w, fits = uint64(v), t.holdsInt(int64(v))
	case uint64:
		w, fits = v, t.holdsUint(v)
	case uint32:
		w, fits = uint64(v), t.holdsUint(uint64(v))
	default:
		return t.reflectWord(reflect.ValueOf(arg))
	}
	if !fits {
		return 0, "", badArg
	}
	return w, "", wordArg
}

// floatWord is word for a Float32, which holds any float32, and a Float64, which holds any
// float32 and float64.
func (t ArgType) floatWord(arg any) (w uint64, text string, kind argKind) {
	var f float64
	size := 8
	switch number := arg.(type) {
	case float64:
		f = number
	case float32:
		f, size = float64(number), 4
	default:
		v := reflect.ValueOf(arg)
		if !v.CanFloat() {
			return 0, "", badArg
		}
		f, size = v.Float(), int(v.Type().Size())
	}
	switch {
	case t == Float64:
		return math.Float64bits(f), "", wordArg
	case size == 4:
		return uint64(math.Float32bits(float32(f))), "", wordArg
	}
	return 0, "", badArg
}

// timeWord is word for a Time.
func timeWord(arg any) (uint64, string, argKind) {
	t, ok := arg.(time.Time)
	if !ok {
		return 0, "", badArg
	}
	return uint64(kind.FromTime(t)), "", wordArg
}

// textWord is word for a String.
func textWord(arg any) (w uint64, text string, kind argKind) {
	var b []byte
	switch v := arg.(type) {
	case string:
		return 0, v, textArg
	case []byte:
		b = v
	default:
		switch v := reflect.ValueOf(arg); {
		case v.Kind() == reflect.String:
			return 0, v.String(), textArg
		case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
			b = v.Bytes()
		default:
			return 0, "", badArg
		}
	}
	// SAFETY: the text is only read, and only before Fire returns, while the caller's
	// argument keeps the bytes alive. As with any []byte argument, the caller ensures
	// that no other goroutine writes to them until then.
	return 0, unsafe.String(unsafe.SliceData(b), len(b)), textArg
}

// reflectWord is word for the less common integer types, and for defined types such as
// time.Duration.
func (t ArgType) reflectWord(v reflect.Value) (w uint64, text string, kind argKind) {
	fits := false
	switch {
	case v.CanInt():
		w, fits = uint64(v.Int()), t.holdsInt(v.Int())
	case v.CanUint():
		w, fits = v.Uint(), t.holdsUint(v.Uint())
	case v.Kind() == reflect.Bool:
		if fits = true; v.Bool() {
			w = 1
		}
	case v.Kind() == reflect.UnsafePointer:
		if t.Size() >= int(unsafe.Sizeof(uintptr(0))) {
			return 0, "", pointerArg
		}
	}
	if !fits {
		return 0, "", badArg
	}
	return w, "", wordArg
}
