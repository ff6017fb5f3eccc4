// Package values has the values that tests fire, and what a tracer must show of them.
package values

import (
	"fmt"
	"math"
	"reflect"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
)

// Integer is any of the integer types that a probe takes.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

// Ends returns the values at the ends of a type and around zero: 0, 1, all bits,
// the highest bit, and all the others.
func Ends[T Integer]() []T {
	ones := ^T(0) // -1, or the greatest
	high := T(1) << (8*unsafe.Sizeof(ones) - 1)
	return []T{0, 1, ones, high, high - 1}
}

// Extremes has the [Ends] of each integer type. Each list has the same length.
var Extremes = map[stapsdt.ArgType][]any{
	stapsdt.Uint8:  Boxed(Ends[uint8]()),
	stapsdt.Int8:   Boxed(Ends[int8]()),
	stapsdt.Uint16: Boxed(Ends[uint16]()),
	stapsdt.Int16:  Boxed(Ends[int16]()),
	stapsdt.Uint32: Boxed(Ends[uint32]()),
	stapsdt.Int32:  Boxed(Ends[int32]()),
	stapsdt.Uint64: Boxed(Ends[uint64]()),
	stapsdt.Int64:  Boxed(Ends[int64]()),
}

// Boxed returns values as arguments of Fire.
func Boxed[T any](values []T) []any {
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = v
	}
	return list
}

// Floats returns values of a floating-point type: zeros, ones, fractions, the ends of the
// type and what is beyond them.
func Floats[T ~float32 | ~float64]() []T {
	most, least := T(math.MaxFloat32), T(math.SmallestNonzeroFloat32)
	if unsafe.Sizeof(most) == 8 {
		wide := [2]float64{math.MaxFloat64, math.SmallestNonzeroFloat64}
		most, least = T(wide[0]), T(wide[1])
	}
	inf := T(math.Inf(1))
	return []T{0, T(math.Copysign(0, -1)), 1, -1.5, 0.1, most, -most, least, -least, inf, -inf}
}

// Word returns a value as a tracer extends it to 64 bits. It panics for a value that
// is not in a register, such as a string.
func Word(value any) uint64 {
	switch v := reflect.ValueOf(value); {
	case v.CanInt():
		return uint64(v.Int())
	case v.CanUint():
		return v.Uint()
	case v.Kind() == reflect.Float32:
		return uint64(math.Float32bits(float32(v.Float())))
	case v.Kind() == reflect.Float64:
		return math.Float64bits(v.Float())
	case v.Kind() == reflect.Bool:
		if v.Bool() {
			return 1
		}
		return 0
	case v.Kind() == reflect.UnsafePointer:
		return uint64(v.Pointer())
	}
	panic(fmt.Sprintf("%T", value))
}
