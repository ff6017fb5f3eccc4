//go:build linux && (amd64 || arm64)

package arguments

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/values"
)

// newRandom returns a source of numbers that are others each time, and tells what would make them the same.
func newRandom(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// integers are the ends of a type, the values around zero, and some others.
func integers[T values.Integer](r *rand.Rand) []T {
	return append(values.Ends[T](), T(r.Uint64()), T(r.Uint64()), T(r.Uint64()))
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

// valuesOf are values for each type of argument: of the Go type of that name, and of wider ones.
func valuesOf(r *rand.Rand) map[stapsdt.ArgType][]any {
	lists := map[stapsdt.ArgType][]any{
		stapsdt.Uint8:  values.Boxed(integers[uint8](r)),
		stapsdt.Int8:   values.Boxed(integers[int8](r)),
		stapsdt.Uint16: values.Boxed(integers[uint16](r)),
		stapsdt.Int16:  values.Boxed(integers[int16](r)),
		stapsdt.Uint32: values.Boxed(integers[uint32](r)),
		stapsdt.Int32:  values.Boxed(integers[int32](r)),
		stapsdt.Uint64: values.Boxed(integers[uint64](r)),
		stapsdt.Int64:  values.Boxed(integers[int64](r)),
	}
	for typ, list := range lists {
		for _, v := range list {
			if typ.Signed() {
				lists[typ] = append(lists[typ], int64(values.Word(v)))
			} else {
				lists[typ] = append(lists[typ], values.Word(v))
			}
		}
	}
	lists[stapsdt.Float32] = values.Boxed(values.Floats[float32]())
	lists[stapsdt.Float64] = values.Boxed(values.Floats[float64]())
	for _, s := range strs(r) {
		lists[stapsdt.String] = append(lists[stapsdt.String], s, []byte(s))
	}
	return lists
}
