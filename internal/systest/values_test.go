//go:build linux && (amd64 || arm64)

package systest

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
)

// newRandom returns a source of numbers that are others each time, and tells what would make them the same.
func newRandom(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

type integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

// integers are the ends of a type, the values around zero, and some others.
func integers[T integer](r *rand.Rand) []T {
	ones := ^T(0) // -1, or the greatest
	high := T(1) << (8*unsafe.Sizeof(ones) - 1)
	return []T{0, 1, ones, high, high - 1, T(r.Uint64()), T(r.Uint64()), T(r.Uint64())}
}

var long = strings.Repeat("0123456789abcdef", 625) // 10,000 bytes

// strs are strings of every length that matters, with everything in them that might end them too soon.
func strs(r *rand.Rand) []string {
	other := make([]byte, r.IntN(2*stapsdt.MaxString))
	for i := range other {
		other[i] = byte(r.Uint32())
	}
	return []string{"", "a", long, long[:stapsdt.MaxString-1], long[:stapsdt.MaxString], "nul\x00inside\x00", "grüße, 世界", "\xff\xfe", string(other)}
}

// boxed makes values arguments of Fire.
func boxed[T any](values []T) []any {
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = v
	}
	return list
}

// valuesOf are values for each type of argument: of the Go type of that name, and of wider ones.
func valuesOf(r *rand.Rand) map[stapsdt.ArgType][]any {
	values := map[stapsdt.ArgType][]any{
		stapsdt.Uint8:  boxed(integers[uint8](r)),
		stapsdt.Int8:   boxed(integers[int8](r)),
		stapsdt.Uint16: boxed(integers[uint16](r)),
		stapsdt.Int16:  boxed(integers[int16](r)),
		stapsdt.Uint32: boxed(integers[uint32](r)),
		stapsdt.Int32:  boxed(integers[int32](r)),
		stapsdt.Uint64: boxed(integers[uint64](r)),
		stapsdt.Int64:  boxed(integers[int64](r)),
	}
	for typ, list := range values {
		for _, v := range list {
			if typ.Signed() {
				values[typ] = append(values[typ], int64(wordOf(v)))
			} else {
				values[typ] = append(values[typ], wordOf(v))
			}
		}
	}
	for _, s := range strs(r) {
		values[stapsdt.String] = append(values[stapsdt.String], s, []byte(s))
	}
	return values
}
