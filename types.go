package stapsdt

import (
	"reflect"
	"strconv"
	"unsafe"
)

// Limits.
const (
	// MaxArgs is the number of arguments a probe can have: SystemTap's own
	// limit.
	MaxArgs = 12
	// MaxString is the number of bytes of a string that a tracer can see,
	// the NUL at its end included. Longer strings are cut.
	MaxString = 4096
)

// ArgType is the type of a probe's argument, as a tracer sees it. The values are
// those of libstapsdt's ArgType_t: the size in bytes, negative where it is
// signed. String is an addition.
type ArgType int8

// The types of arguments.
const (
	NoArg  ArgType = 0
	Uint8  ArgType = 1
	Int8   ArgType = -1
	Uint16 ArgType = 2
	Int16  ArgType = -2
	Uint32 ArgType = 4
	Int32  ArgType = -4
	Uint64 ArgType = 8
	Int64  ArgType = -8

	// String is the address of NUL-terminated bytes, which a tracer reads
	// while the probe fires: str(arg0) in bpftrace. To a tracer it is an
	// unsigned integer of 8 bytes.
	String ArgType = 16
)

// Size returns the size of what the tracer is passed, in bytes: 0 for NoArg
// and for what is no ArgType.
func (t ArgType) Size() int {
	switch t {
	case Uint8, Int8:
		return 1
	case Uint16, Int16:
		return 2
	case Uint32, Int32:
		return 4
	case Uint64, Int64, String:
		return 8
	}
	return 0
}

// Signed reports whether the tracer extends the sign.
func (t ArgType) Signed() bool { return t < 0 && t.Size() > 0 }

// String returns the name of the constant, in lower case, as Go and libstapsdt
// spell the type.
func (t ArgType) String() string {
	switch {
	case t == NoArg:
		return "noarg"
	case t == String:
		return "string"
	case t.Size() == 0:
		return "ArgType(" + strconv.Itoa(int(t)) + ")"
	case t.Signed():
		return "int" + strconv.Itoa(8*t.Size())
	}
	return "uint" + strconv.Itoa(8*t.Size())
}

// valid reports whether a probe can have an argument of the type.
func (t ArgType) valid() bool { return t.Size() > 0 }

// note returns the type as a note spells it.
func (t ArgType) note() int8 {
	if t.Signed() {
		return -int8(t.Size())
	}
	return int8(t.Size())
}

// holds reports whether the type can hold a value without changing it.
func (t ArgType) holdsInt(v int64) bool {
	bits := 8 * t.Size()
	if t.Signed() {
		return v<<(64-bits)>>(64-bits) == v
	}
	return v >= 0 && t.holdsUint(uint64(v))
}

func (t ArgType) holdsUint(v uint64) bool {
	bits := 8 * t.Size()
	if t.Signed() {
		bits--
	}
	return bits == 64 || v>>bits == 0
}

// argKind is how an argument of Fire is passed.
type argKind int

const (
	badArg     argKind = iota // its type cannot hold it
	wordArg                   // as 64 bits
	textArg                   // as the address of a copy of its text
	pointerArg                // as itself
)

// word converts an argument of Fire into the 64 bits that a tracer is passed, or
// into the text that it is to find.
func (t ArgType) word(arg any) (w uint64, text string, kind argKind) {
	if t == String {
		return textWord(arg)
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
	// SAFETY: the text is only read, before Fire returns, while the caller's
	// argument holds the bytes. That nobody writes to them meanwhile is the
	// caller's ordinary duty.
	return 0, unsafe.String(unsafe.SliceData(b), len(b)), textArg
}

// reflectWord is word for the less common integers, and for types that are built
// on others.
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
