package stapsdt

import (
	"cmp"
	"reflect"
	"slices"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/kind"
)

// Arg is the constraint on the argument types of typed probes. A tracer sees a bool as an unsigned
// byte, an int and a uint as 8 bytes (4 on a 32-bit system), a pointer as its address, a string or
// a []byte as a String, a float32 or a float64 as its bits, and a time.Time as a Time.
type Arg interface {
	~bool |
		~int8 | ~int16 | ~int32 | ~int64 | ~int |
		~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint | ~uintptr |
		~float32 | ~float64 |
		~unsafe.Pointer | ~string | ~[]byte | time.Time
}

// argTypeOf returns the ArgType of the Go type of an argument, or noArg if an argument
// cannot have the type. Only an argument of a ProbeOf can be a pointer to a struct.
func argTypeOf(typ reflect.Type) ArgType {
	switch typ.Kind() {
	case reflect.String:
		return String
	case reflect.Slice:
		if typ.Elem() == reflect.TypeFor[byte]() {
			return String
		}
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Int:
		return -ArgType(typ.Size())
	case reflect.Bool,
		reflect.Uint8,
		reflect.Uint16,
		reflect.Uint32,
		reflect.Uint64,
		reflect.Uint,
		reflect.Uintptr,
		reflect.UnsafePointer:
		return ArgType(typ.Size())
	case reflect.Pointer:
		if typ.Elem().Kind() == reflect.Struct {
			return ArgType(typ.Size())
		}
	case reflect.Struct:
		// A comparison with the type would keep its methods in every program: 70 KB.
		if typ.PkgPath() == "time" && typ.String() == kind.TimeName {
			return Time
		}
	case reflect.Float32:
		return Float32
	case reflect.Float64:
		return Float64
	}
	return noArg
}

// isPointer reports whether an argument of the type is a pointer.
func isPointer(typ reflect.Type) bool {
	return typ.Kind() == reflect.UnsafePointer || typ.Kind() == reflect.Pointer
}

// define adds probe, a typed one, to the provider. Load reports an error, so that probes
// can be package variables. A nil provider reports none: a program can give a library a
// nil provider to make the library's probes do nothing.
func (p *Provider) define(probe *Probe, name string, names []string, types ...reflect.Type) {
	probe.types = types
	args := slices.Grow([]ArgType(nil), len(types)) // nil if there are none
	for i, typ := range types {
		args = append(args, argTypeOf(typ))
		if isPointer(typ) {
			probe.pointers |= 1 << i
		}
	}
	p.recordError(p.add(probe, name, args, names))
}

// recordError records the error of a definition, or nil, for Load.
func (p *Provider) recordError(err error) {
	if err == nil || p.zero() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = cmp.Or(p.err, err)
}

// keepAlive keeps an argument alive until the tracer has seen it: the memory that a pointer
// refers to must not be freed while only the word in an event refers to it.
//
//go:noinline
func keepAlive[T any](T) {}

//go:generate go run typed_template.go

// The typed probes are in typed_gen.go. Each Fire is inlined: while no tracer is attached
// it does the same as on. Its branch leads to a function of its own, fire, so that the
// arguments stay in registers until then. fire returns the same result as enter. Without
// pointer arguments it enters the site itself, because every frame above the site costs
// time: after a system call, which a traced site makes, many processors have forgotten
// where to return to.
//
// Each fire ends with runtime.KeepAlive, which package call requires, and keepAlive, which
// the memory that pointers refer to requires. No test could detect their absence: the probe
// and the arguments are in use until WithRegisters or enter has read them, and from then until the
// site has returned the goroutine cannot stop, so that no collection can end. (In Enabled and
// Traced it can stop. TestIdleIsInlined checks for the KeepAlive of Enabled, which is inlined.)
