package stapsdt

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/kind"

	"github.com/stretchr/testify/require"
)

type (
	status   int16
	elapsed  time.Duration
	fraction float32
)

// TestEventValues: an argument has the kind of its Go type, and its value.
func TestEventValues(t *testing.T) {
	p := newProvider(t, "values")
	numbers := NewProbe6[bool, status, uint64, time.Duration, fraction, float64](p, "numbers")
	texts := NewProbe5[string, []byte, unsafe.Pointer, uintptr, elapsed](p, "texts")
	dynamic, err := p.AddProbe("dynamic", Uint8, Int64, Float32, Float64, String, String, Uint64, Int8, Int16, Int32, Uint16, Uint32)
	require.NoError(t, err)
	var e *Event
	stop := p.Observe(func(event *Event) { e = event.Clone() })
	defer stop()
	var kinds []Kind
	values := func() (list []any) {
		kinds = nil
		for i := range e.NumArgs() {
			kinds = append(kinds, e.Arg(i).Kind())
			list = append(list, e.Arg(i).Any())
		}
		return list
	}
	numbers.Fire(true, -5, 1<<63, time.Minute, 0.1, 0.1)
	require.Equal(t, []any{true, int64(-5), uint64(1 << 63), time.Minute, float64(float32(0.1)), 0.1}, values())
	require.Equal(t, []Kind{KindBool, KindInt64, KindUint64, KindDuration, KindFloat64, KindFloat64}, kinds)
	require.Same(t, &numbers.Probe, e.Probe())
	require.Equal(t, "values:numbers(true, -5, 9223372036854775808, 1m0s, 0.1, 0.1)", e.String())

	x := unsafe.Pointer(p)
	texts.Fire("text", []byte("with a \x00"), x, uintptr(x), 7)
	require.Equal(t, []any{"text", "with a \x00", uintptr(x), uint64(uintptr(x)), int64(7)}, values())
	require.Equal(t, []Kind{KindString, KindString, KindPointer, KindUint64, KindInt64}, kinds)
	require.Equal(t, uintptr(x), e.Arg(2).Pointer())
	require.Equal(t, fmt.Sprintf("%p", x), e.Arg(2).String())

	long := strings.Repeat("x", MaxString)
	require.NoError(t, dynamic.Fire(255, -1, float32(0.5), 1e300, long, "", x, -128, -1, -1, 1, 2))
	require.Equal(t, []any{uint64(255), int64(-1), 0.5, 1e300, long[1:], "", uint64(uintptr(x)), int64(-128), int64(-1), int64(-1), uint64(1), uint64(2)}, values())
	require.Panics(t, func() { e.Arg(12) })
	require.Panics(t, func() { e.Arg(-1) })
	numbers.Fire(false, 0, 0, 0, 0, 0)
	require.Panics(t, func() { e.Arg(6) })
}

// TestArgByName: an argument without a name, or of another, has no value.
func TestArgByName(t *testing.T) {
	p := newProvider(t, "byname")
	named := NewProbe3[string, int, string](p, "named", "path", "status", "route")
	unnamed := NewProbe1[int](p, "unnamed")
	var e *Event
	defer p.Observe(func(event *Event) { e = event.Clone() })()
	named.Fire("/a", 200, "/")
	require.Equal(t, "/a", e.ArgByName("path").Any())
	require.EqualValues(t, 200, e.ArgByName("status").Any())
	require.Equal(t, "/", e.ArgByName("route").Any())
	for _, name := range []string{"", "arg0", "Path"} {
		require.Equal(t, Value{}, e.ArgByName(name), name)
	}
	unnamed.Fire(1)
	require.Equal(t, Value{}, e.ArgByName(""))
	require.Equal(t, Value{}, e.ArgByName("arg0"))
}

// TestConversions: a value of any kind can be asked for any other.
func TestConversions(t *testing.T) {
	for _, c := range []struct {
		v        Value
		asInt    int64
		asFloat  float64
		asBool   bool
		asString string
		name     string
	}{
		{Value{kind: KindInt64, num: 1<<64 - 2}, -2, -2, true, "-2", "int64"},
		{Value{kind: KindUint64, num: 3}, 3, 3, true, "3", "uint64"},
		{Value{kind: KindDuration, num: 3}, 3, 3, true, "3ns", "time.Duration"},
		{Value{kind: KindBool}, 0, 0, false, "false", "bool"},
		{Value{kind: KindBool, num: 1}, 1, 1, true, "true", "bool"},
		{Value{kind: KindPointer, num: 16}, 16, 16, true, "0x10", "uintptr"},
		{Value{kind: KindTime, num: 16e8 * 1e9}, 16e17, 16e17, true, "2020-09-13T12:26:40Z", "time.Time"},
		{Value{kind: KindString, text: "7"}, 0, 0, false, "7", "string"},
		{float32Value(0x3fc00000), 1, 1.5, true, "1.5", "float64"},
		{Value{}, 0, 0, false, "", "invalid"},
	} {
		require.Equal(t, c.asInt, c.v.Int64(), c.name)
		require.Equal(t, uint64(c.asInt), c.v.Uint64(), c.name)
		require.Equal(t, uintptr(c.asInt), c.v.Pointer(), c.name)
		require.Equal(t, time.Duration(c.asInt), c.v.Duration(), c.name)
		require.Equal(t, time.Unix(0, c.asInt).UTC(), c.v.Time(), c.name)
		require.Equal(t, c.asFloat, c.v.Float64(), c.name)
		require.Equal(t, c.asBool, c.v.Bool(), c.name)
		require.Equal(t, c.asString, c.v.String(), c.name)
		require.Equal(t, c.name, c.v.Kind().String())
	}
	require.Nil(t, Value{}.Any())
	for k := KindInt64; int(k) < len(kind.Rows); k++ {
		require.Equal(t, k.String(), fmt.Sprintf("%T", Value{kind: k}.Any()))
	}
	require.Equal(t, "<no event>", (*Event)(nil).String())
}

// TestEventIsReused: what an observer keeps is reused, and says that it is no event. A
// Clone is not.
func TestEventIsReused(t *testing.T) {
	p := newProvider(t, "reuse")
	probe := NewProbe1[string](p, "probe")
	var kept, clone *Event
	defer p.Observe(func(e *Event) { kept, clone = e, e.Clone() })()
	probe.Fire("first")
	first := clone
	require.Equal(t, "<no event>", kept.String())
	probe.Fire("other")
	require.Equal(t, "first", first.Arg(0).String())
}
