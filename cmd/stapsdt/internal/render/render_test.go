//go:build linux

package render

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/record"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/symbol"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/assert"
)

// TestHistogram: the buckets are shown in order, each with a bar.
func TestHistogram(t *testing.T) {
	h := &Histogram{Type: expr.Type{Kind: expr.Int, Size: 8}, Group: PowersOfTwo, Buckets: []Bucket{
		{Low: 1024, High: 1152, Count: 2, Sum: 2100}, {Low: math.Inf(-1), High: 0, Count: 1, Sum: ^uint64(4)}, {Low: 1, High: 2, Count: 1, Sum: 1},
		{Low: 1152, High: 1280, Count: 4, Sum: 4800}, {Low: 4, High: 5, Count: 1, Sum: 4},
	}}
	h.Sort()
	var b strings.Builder
	h.Text(&b, 80)
	bar := func(n int) string { return "|" + strings.Repeat("@", n) + strings.Repeat(" ", 52-n) + "|" }
	want := "(..., 0)            1 " + bar(9) + "\n" +
		"[0]                 0 " + bar(0) + "\n" +
		"[1]                 1 " + bar(9) + "\n" +
		"[2, 4)              0 " + bar(0) + "\n" +
		"[4, 8)              1 " + bar(9) + "\n" +
		"[8, 16)             0 " + bar(0) + "\n" +
		"[16, 32)            0 " + bar(0) + "\n" +
		"[32, 64)            0 " + bar(0) + "\n" +
		"[64, 128)           0 " + bar(0) + "\n" +
		"[128, 256)          0 " + bar(0) + "\n" +
		"[256, 512)          0 " + bar(0) + "\n" +
		"[512, 1K)           0 " + bar(0) + "\n" +
		"[1K, 2K)            6 " + bar(52) + "\n" +
		"count 9  average 766.7  p50 1050  p90 1200  p99 1200  p999 1200\n"
	assert.Equal(t, want, b.String())
	for part, want := range map[float64]float64{0.01: -5, 0.12: 1, 0.3: 4, 0.4: 1050, 0.5: 1050, 0.6: 1200, 1: 1200} {
		assert.Equal(t, want, h.Quantile(part), part)
	}
	// A sum that has overflowed.
	h = &Histogram{Type: expr.Type{Kind: expr.Uint, Size: 8}, Buckets: []Bucket{{Low: 1 << 62, High: 1 << 63, Count: 8, Sum: 5}}}
	assert.Equal(t, float64(3<<61), h.Average())
}

// TestLongName: a long name makes no line longer than its own.
func TestLongName(t *testing.T) {
	long := strings.Repeat("n", 1000)
	l := &Lines{}
	l.Known(&Source{Provider: "app", Probe: long})
	l.head(time.Time{}, 1, nil, "", "app", "p", true)
	short := len(l.buf)
	l.head(time.Time{}, 1, nil, "", "app", long, true)
	assert.LessOrEqual(t, short, 250, "bytes of a line") // with those of the titles
	assert.Contains(t, string(l.buf), long, "a name is cut")
}

// TestWidth: everything fits the columns that there are.
func TestWidth(t *testing.T) {
	h := &Histogram{Type: expr.Type{Kind: expr.Int, Size: 8, Duration: true}, Group: PowersOfTwo, Buckets: []Bucket{
		{Low: 32768, High: 36864, Count: 12345, Sum: 12345 * 33000}, {Low: 1 << 20, High: 1<<20 + 1<<17, Count: 3, Sum: 3 << 20},
	}}
	for _, columns := range []int{40, 80, 120} {
		var b strings.Builder
		h.Text(&b, columns)
		table := Table{Right: 1, Width: columns}
		table.Add("COUNT", "PROBE", "path", "method")
		table.Add("12", "shop:request__end", `"/`+strings.Repeat("ä", 70)+`"`, `"GET"`)
		b.Write(table.Text())
		widest := 0
		for line := range strings.Lines(b.String()) {
			widest = max(widest, len([]rune(strings.TrimSuffix(line, "\n"))))
		}
		assert.LessOrEqual(t, widest, columns, "%d of %d columns:\n%s", widest, columns, b.String())
		if columns <= 80 {
			assert.GreaterOrEqual(t, widest, columns-1, "%d of %d columns:\n%s", widest, columns, b.String())
		}
		assert.Contains(t, b.String(), `"GET"`)
		assert.Contains(t, b.String(), "p999")
	}
}

func TestStackJSON(t *testing.T) {
	stack := &symbol.Stack{Cut: symbol.CutDepth, Frames: []symbol.Frame{
		{Functions: []symbol.Function{{Name: "main.inlined", File: "/a/main.go", Line: 3}, {Name: "main.f", File: "/a/main.go", Line: 9}}},
		{Address: 0x123},
	}}
	const want = `{"stack":[{"function":"main.inlined","file":"/a/main.go","line":3},{"function":"main.f","file":"/a/main.go","line":9},{"function":"0x123"}],"cut":"cut: too deep"}`
	got, err := json.Marshal(NewJSONStack(stack))
	assert.NoError(t, err)
	assert.Equal(t, want, string(got))
}

func TestDuration(t *testing.T) {
	for f, want := range map[float64]string{0: "0s", 999: "999ns", 1048576: "1.05ms", 33554432: "33.6ms", 1.5e9: "1.5s", -2e6: "-2ms", math.MaxUint64: "1.84e+10s"} {
		assert.Equal(t, want, Duration(f), f)
	}
}

func TestTable(t *testing.T) {
	table := Table{Right: 1}
	table.Add("COUNT", "PROBE", "key")
	table.Add("12", "a:b", "ä")
	table.Add("3", "longer:probe", "")
	const want = "COUNT  PROBE         key\n   12  a:b           ä\n    3  longer:probe  \n"
	assert.Equal(t, want, string(table.Text()))
}

func FuzzJSONString(f *testing.F) {
	for _, s := range []string{"", "a\"b\\c\n\x00\x1f\x7f", "äöü\xff", "</script>\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		err := json.Unmarshal(AppendJSONString(nil, s), &got)
		if assert.NoError(t, err, "%q: %q", s, got) {
			if got != strings.ToValidUTF8(s, "\ufffd") {
				assert.Len(t, []rune(got), len([]rune(s)), "%q: %q", s, got)
			}
		}
	})
}

// FuzzFields: types from a hostile file.
func FuzzFields(f *testing.F) {
	f.Add(int64(0), int64(0), int64(1), int64(8), int64(3), uint8(2), []byte("0123456789abcdef"))
	f.Add(int64(-1), int64(-3), int64(64), int64(-8), int64(1<<62), uint8(7), []byte{})
	f.Add(int64(math.MaxInt64), int64(1), int64(65), int64(math.MaxInt64), int64(math.MaxInt64), uint8(5), []byte("0123456789abcdef"))
	f.Fuzz(func(t *testing.T, offset, bitOffset, bitSize, size, count int64, kind uint8, content []byte) {
		inner := &sdt.Type{Kind: sdt.Kind(kind % 9), Size: size, Count: count}
		char := &sdt.Type{Kind: sdt.KindChar, Size: 1}
		inner.Elem = char
		array := &sdt.Type{Kind: sdt.KindArray, Size: size, Count: count, Elem: inner}
		whole := &sdt.Type{Kind: sdt.KindStruct, Size: int64(len(content)), Fields: []sdt.Field{
			{Name: "a", Type: inner, Offset: offset}, {Name: "b", Type: inner, Offset: offset, BitOffset: bitOffset, BitSize: bitSize},
			{Name: "c", Type: array, Offset: offset}, {Name: "d", Type: &sdt.Type{Kind: sdt.KindArray, Elem: char, Count: count}, Offset: offset},
		}}
		d := &record.Details{Type: whole, Size: len(content)}
		for _, asJSON := range []bool{false, true} {
			fs := fields{d: d, v: &event.Value{Struct: content}, json: asJSON}
			out := fs.structure(nil, whole, 0)
			if asJSON {
				assert.True(t, json.Valid(out), "%s", out)
			}
		}
	})
}

func TestPrintable(t *testing.T) {
	for s, want := range map[string]string{"plain": "plain", "ä": "ä", "a\x1b[2Jb": "a\ufffd[2Jb", "\xff": "\ufffd", "\x7f": "\ufffd"} {
		assert.Equal(t, want, Printable(s), s)
	}
}

func FuzzDecimals(f *testing.F) {
	f.Add(uint32(0))
	f.Add(uint32(math.MaxUint32))
	f.Fuzz(func(t *testing.T, n uint32) {
		assert.Len(t, AppendNumber(nil, expr.Type{Kind: expr.Uint, Size: 4}, uint64(n)), decimals(n), n)
	})
}
