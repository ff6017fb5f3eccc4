package stapsdt

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

func TestArgType(t *testing.T) {
	for _, c := range []struct {
		typ    ArgType
		size   int
		signed bool
		name   string
		note   int8
	}{
		{Uint8, 1, false, "uint8", 1}, {Int8, 1, true, "int8", -1},
		{Uint16, 2, false, "uint16", 2}, {Int16, 2, true, "int16", -2},
		{Uint32, 4, false, "uint32", 4}, {Int32, 4, true, "int32", -4},
		{Uint64, 8, false, "uint64", 8}, {Int64, 8, true, "int64", -8},
		{String, 8, false, "string", 8}, {Time, 8, true, "time.Time", -8},
		{Float32, 4, false, "float32", 4}, {Float64, 8, false, "float64", 8},
	} {
		require.Equal(t, c.size, c.typ.Size())
		require.Equal(t, c.signed, c.typ.Signed())
		require.Equal(t, c.name, c.typ.String())
		require.Equal(t, c.note, c.typ.note())
		require.True(t, c.typ.valid())
	}
	require.Equal(t, "noarg", noArg.String())
	require.Zero(t, noArg.Size())
	require.False(t, noArg.valid())
	for _, bad := range []ArgType{3, -16, -3, 127, -128, -Float32, -Float64, 32, 33} {
		require.Zero(t, bad.Size())
		require.False(t, bad.Signed())
		require.False(t, bad.valid())
	}
}

type (
	userID  uint64
	level   int8
	path    string
	blob    []byte
	flag    bool
	pointer unsafe.Pointer
	ratio   float32
	seconds float64
)

func TestWord(t *testing.T) {
	x := 1
	for _, c := range []struct {
		typ  ArgType
		arg  any
		want uint64
		ok   bool
	}{
		{Uint8, 0, 0, true}, {Uint8, 255, 255, true}, {Uint8, 256, 0, false}, {Uint8, -1, 0, false}, {Uint8, uint64(256), 0, false},
		{Int8, 127, 127, true}, {Int8, -128, math.MaxUint64 - 127, true}, {Int8, 128, 0, false}, {Int8, -129, 0, false}, {Int8, uint8(128), 0, false}, {Int8, uint8(127), 127, true},
		{Uint16, uint16(math.MaxUint16), math.MaxUint16, true}, {Uint16, 1 << 16, 0, false},
		{Int16, int16(math.MinInt16), 1<<64 - 1<<15, true}, {Int16, 1 << 15, 0, false}, {Int16, uint16(1 << 15), 0, false}, {Int16, uint16(math.MaxInt16), math.MaxInt16, true},
		{Uint32, uint32(math.MaxUint32), math.MaxUint32, true}, {Uint32, int64(1) << 32, 0, false},
		{Int32, int32(math.MinInt32), 1<<64 - 1<<31, true}, {Int32, uint32(1) << 31, 0, false}, {Int32, uint32(math.MaxInt32), math.MaxInt32, true},
		{Uint64, uint64(math.MaxUint64), math.MaxUint64, true}, {Uint64, int8(-1), 0, false}, {Uint64, uintptr(7), 7, true},
		{Int64, int64(math.MinInt64), 1 << 63, true}, {Int64, uint64(1) << 63, 0, false}, {Int64, uint64(math.MaxInt64), math.MaxInt64, true}, {Int64, -1, math.MaxUint64, true},
		{Uint8, true, 1, true}, {Int64, false, 0, true}, {Int8, flag(true), 1, true},
		{Uint8, unsafe.Pointer(&x), 0, false}, {Uint32, pointer(&x), 0, false},
		{Uint64, userID(9), 9, true}, {Int16, level(-3), 1<<64 - 3, true}, {Uint8, level(-3), 0, false},
		{Int64, 1.0, 0, false}, {Int64, "1", 0, false}, {Int64, nil, 0, false}, {Int64, &x, 0, false}, {Int64, complex(1, 0), 0, false},
		{Float64, 1.5, 0x3ff8 << 48, true}, {Float64, float32(1.5), 0x3ff8 << 48, true}, {Float64, seconds(-0.1), 0xbfb999999999999a, true}, {Float64, ratio(-2), 0xc << 60, true},
		{Float64, math.Inf(1), 0x7ff << 52, true}, {Float64, math.Copysign(0, -1), 1 << 63, true}, {Float64, math.Float64frombits(0x7ff8<<48 | 7), 0x7ff8<<48 | 7, true},
		{Float32, float32(1.5), 0x3fc00000, true}, {Float32, ratio(-0.1), 0xbdcccccd, true}, {Float32, float32(math.MaxFloat32), 0x7f7fffff, true}, {Float32, float32(math.Inf(-1)), 0xff800000, true},
		{Float32, 1.5, 0, false}, {Float32, seconds(1.5), 0, false}, {Float32, 1, 0, false}, {Float64, 1, 0, false}, {Float64, uint64(1), 0, false}, {Float64, true, 0, false},
		{Float64, "1", 0, false}, {Float64, nil, 0, false}, {Float32, unsafe.Pointer(&x), 0, false}, {Float64, complex(1, 0), 0, false}, {Uint64, 1.0, 0, false}, {Uint32, ratio(1), 0, false},
		{Time, time.Unix(3, 4).In(time.FixedZone("", 3600)), 3e9 + 4, true}, {Time, time.Unix(-1, 0), 1<<64 - 1e9, true},
		{Time, time.Time{}, 1 << 63, true}, {Time, time.Unix(1<<40, 0), math.MaxInt64, true},
		{Time, int64(1), 0, false}, {Time, time.Second, 0, false}, {Time, "now", 0, false}, {Time, nil, 0, false},
		{Time, new(time.Time), 0, false}, {Int64, time.Now(), 0, false}, {String, time.Now(), 0, false}, {Float64, time.Now(), 0, false},
		{String, 1.0, 0, false}, {String, 1, 0, false}, {String, uint32(1), 0, false}, {String, nil, 0, false}, {String, []int8{1}, 0, false},
	} {
		w, text, kind := c.typ.word(c.arg)
		require.Equal(t, c.ok, kind == wordArg, "%v %T %v", c.typ, c.arg, c.arg)
		require.Empty(t, text)
		if c.ok {
			require.Equal(t, c.want, w, "%v %T %v", c.typ, c.arg, c.arg)
		}
	}
	for _, arg := range []any{"text", []byte("text"), path("text"), blob("text")} {
		_, text, kind := String.word(arg)
		require.Equal(t, textArg, kind)
		require.Equal(t, "text", text)
	}
	for _, arg := range []any{"", []byte(nil), []byte{}, blob(nil)} {
		_, text, kind := String.word(arg)
		require.Equal(t, textArg, kind)
		require.Empty(t, text)
	}
}

func TestPointersAreTold(t *testing.T) {
	x := 1
	for _, arg := range []any{unsafe.Pointer(&x), pointer(&x), unsafe.Pointer(nil)} {
		_, _, kind := Uint64.word(arg)
		require.Equal(t, pointerArg, kind)
	}
}

// TestTypesOfC: the C library has the same types, by the same names.
func TestTypesOfC(t *testing.T) {
	testenv.NotEmulated(t, "the sources are not there")
	header, err := os.ReadFile("cstapsdt/libstapsdt.h")
	require.NoError(t, err)
	enum, _, _ := strings.Cut(string(header), "} ArgType_t;")
	_, enum, _ = strings.Cut(enum, "\tnoarg = 0,")
	rows := regexp.MustCompile(`(\w+) = (-?\d+)`).FindAllStringSubmatch(enum, -1)
	require.Len(t, rows, 8+10) // with the prefix too, and then noarg and strings
	for _, row := range rows {
		if row[1] == "sdt_noarg" {
			continue
		}
		value, err := strconv.ParseInt(row[2], 10, 8)
		require.NoError(t, err)
		require.Equal(t, strings.TrimPrefix(row[1], "sdt_"), ArgType(value).String())
	}
}
