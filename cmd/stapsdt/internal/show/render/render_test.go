package render

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestHistogram: the buckets are shown in order, each with a bar.
func TestHistogram(t *testing.T) {
	of, counted := expr.Type{Kind: expr.Int, Size: 8}, query.Tallies{}
	for _, v := range []int64{1050, 1050, -5, 1, 1200, 1200, 1200, 1200, 4} {
		counted.Of(query.Powers{}.Of(of, uint64(v))).Add(of, uint64(v))
	}
	h := NewHistogram(of, query.Powers{}, counted)
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
	for number, want := range map[float64]string{148300.5: "148301", 105891: "105891", 1023 << 50: "1023P", 1 << 63: "8E", 1025 << 10: "1049600", 766.66: "766.7"} {
		assert.Equal(t, want, h.Format(number))
	}
	// A linear histogram has its empty rows too, and many are one.
	h = &Histogram{Type: of, Of: query.Linear{Low: 0, High: 1000, Step: 4}, Buckets: []Bucket{{Low: math.Inf(-1), High: -8, Count: 1}, {Low: 0, High: 4, Count: 1}, {Low: 8, High: 12, Count: 1}, {Low: 100, High: 104, Count: 1}}}
	b.Reset()
	h.Text(&b, 80)
	assert.Regexp(t, `^\(\.\.\., -8\) +1 .*\n\[-8, -4\) +0 .*\n\[-4, 0\) +0 .*\n\[0, 4\) +1 .*\n\[4, 8\) +0 .*\n\[8, 12\) +1 .*\n\.\.\.\n\[100, 104\) +1 `, b.String())
	// Many empty rows are one.
	h = &Histogram{Type: expr.Type{Kind: expr.Int, Size: 8, Unit: kind.Nanoseconds}, Of: query.Powers{}, Buckets: []Bucket{{Low: 0, High: 1, Count: 1}, {Low: 1 << 20, High: 1<<20 + 1<<17, Count: 1, Sum: query.Sum{Low: 1 << 20}}}}
	b.Reset()
	h.Text(&b, 80)
	full := "|" + strings.Repeat("@", 51) + "|"
	assert.Equal(t, "[0s, 1ns)                1 "+full+"\n...\n[1.05ms, 2.1ms)          1 "+full+"\n"+
		"count 2  average 524µs  p50 0s  p90 1.05ms  p99 1.05ms  p999 1.05ms\n", b.String())
}

// FuzzFormat: numbers at the ends of their types are formatted, and averages and quantiles are exact.
func FuzzFormat(f *testing.F) {
	for _, v := range []uint64{0, 1, 999, 1 << 53, 7_800_000_000_000_000_000, 9_169_610_316_303_040_513, math.MaxInt64 - 1024, math.MaxInt64, 1 << 63, math.MaxUint64} {
		f.Add(v, v, uint8(21))
		f.Add(v, -v, uint8(33))
	}
	f.Fuzz(func(t *testing.T, a, b uint64, times uint8) {
		for _, of := range []expr.Type{{Kind: expr.Int, Size: 8, Unit: kind.Nanoseconds}, {Kind: expr.Int, Size: 8}, {Kind: expr.Uint, Size: 8, Unit: kind.Nanoseconds}, {Kind: expr.Uint, Size: 8}} {
			counted := query.Tallies{}
			want := new(big.Int)
			for range int(times) + 1 {
				for _, v := range []uint64{a, b} {
					counted.Of(query.Powers{}.Of(of, v)).Add(of, v)
					one := new(big.Int).SetUint64(v)
					if of.Kind == expr.Int {
						one.SetInt64(int64(v))
					}
					want.Add(want, one)
				}
			}
			h := NewHistogram(of, query.Powers{}, counted)
			average, _ := new(big.Rat).SetFrac(want, big.NewInt(int64(h.Count()))).Float64()
			assert.Equal(t, average, h.Average())
			for _, q := range Quantiles {
				value := h.Quantile(q.Part)
				assert.True(t, value >= h.Buckets[0].Low && value <= h.Buckets[len(h.Buckets)-1].High, "%v of %+v", value, h.Buckets)
			}
			var text strings.Builder
			h.Text(&text, 80)
			assert.NotContains(t, text.String(), "e+")
			for line := range strings.Lines(text.String()) {
				assert.LessOrEqual(t, len([]rune(line)), 81, line)
			}
			encoded, err := json.Marshal(h.JSON())
			assert.NoError(t, err, "%s", encoded)
			_ = AppendNumber(nil, of, a)
		}
	})
}

// TestLongName: a long name makes no line longer than its own.
func TestLongName(t *testing.T) {
	long := strings.Repeat("n", 1000)
	l := NewPrinter(query.Text, Style{}).(*lines)
	l.Know(&recording.Probe{Provider: "app", Name: long})
	items := []value.Item{{}}
	l.head(&Probe{Items: items}, nil, eventOf(probeOf("app", "p", nil), recording.Event{}, nil, nil))
	short := len(l.buf)
	l.head(&Probe{Items: items}, nil, eventOf(probeOf("app", long, nil), recording.Event{}, nil, nil))
	assert.LessOrEqual(t, short, 250, "bytes of a line") // with those of the titles
	assert.Contains(t, string(l.buf), long, "a name is cut")
}

// TestWidth: everything fits the columns that there are.
func TestWidth(t *testing.T) {
	h := &Histogram{Type: expr.Type{Kind: expr.Int, Size: 8, Unit: kind.Nanoseconds}, Of: query.Powers{}, Buckets: []Bucket{
		{Low: 32768, High: 36864, Count: 12345, Sum: query.Sum{Low: 12345 * 33000}}, {Low: 1 << 20, High: 1<<20 + 1<<17, Count: 3, Sum: query.Sum{Low: 3 << 20}},
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

func TestDuration(t *testing.T) {
	for f, want := range map[float64]string{0: "0s", 999: "999ns", 1048576: "1.05ms", 33554432: "33.6ms", 1.5e9: "1.5s", -2e6: "-2ms", 2.25e15: "625h0m0s", 3.6e15: "1000h", 7.8e18: "2170000h",
		9_169_610_316_303_040_513: "2550000h", math.MaxInt64: "2560000h", math.MinInt64: "-2560000h", math.MaxUint64: "5120000h", math.Inf(1): "+Infh"} {
		assert.Equal(t, want, Duration(f), f)
	}
}

// TestOperation: an operation that is not known is not shown as 0, and a number is.
func TestOperation(t *testing.T) {
	id, narrow := expr.Type{Kind: expr.Uint, Size: 8}, expr.Type{Kind: expr.Uint, Size: 4}
	for _, c := range []struct {
		item value.Item
		bits uint64
		want string
	}{
		{value.Item{Name: "parent", Type: id}, 0, "-"}, {value.Item{Name: "span", Type: id}, 0, "-"}, {value.Item{Name: "parent", Type: id}, 7, "7"},
		{value.Item{Name: "parent", Type: narrow}, 0, "0"}, {value.Item{Name: "id", Type: id}, 0, "0"},
	} {
		v := &value.Value{Type: c.item.Type, Bits: c.bits}
		assert.Equal(t, c.want, string(AppendText(nil, &c.item, v)), c)
		assert.Equal(t, fmt.Sprint(c.bits), string(AppendJSON(nil, &c.item, v)), c)
	}
}

func TestTable(t *testing.T) {
	table := Table{Right: 1}
	table.Add("COUNT", "PROBE", "key")
	table.Add("12", "a:b", "ä")
	table.Add("3", "longer:probe", "")
	const want = "COUNT  PROBE         key\n   12  a:b           ä\n    3  longer:probe  \n"
	assert.Equal(t, want, string(table.Text()))

	wide := Table{Width: 20} // of columns, of which these characters take two or none
	wide.Add("日本語", "e\u0301", "x")
	wide.Add("a", "b", "日本語日本語")
	assert.Equal(t, "日本語  e\u0301  x\na       b  日本語日…\n", string(wide.Text()))
	for width, want := range map[int]string{7: "日本語a", 6: "日本…", 5: "日本…", 4: "日…", 1: "…", 0: "…"} {
		assert.Equal(t, want, Cut("日本語a", width), width)
	}
	assert.Equal(t, "e\u0301…", Cut("e\u0301ab", 2), "a letter keeps its accent")
}

// TestDistinct: cells that are cut stay different, and functions keep their names.
func TestDistinct(t *testing.T) {
	for _, c := range []struct {
		width       int
		cells, want []string
	}{
		{12, []string{`"GET /items"`, `"GET /suppliers"`}, []string{`"GET /items"`, `"GET /suppl…`}},
		{11, []string{`"/tenants/initech/export"`, `"/tenants/globex/export"`}, []string{`…ch/export"`, `…ex/export"`}},
		{11, []string{`"/tenants/initech"`, `"/tenants/globex"`}, []string{`"/ten…tech"`, `"/ten…obex"`}},
		{13, []string{"/a/very/long/1/x", "/a/very/long/2/x"}, []string{"/a/ver…ng/1/x", "/a/ver…ng/2/x"}},
		{9, []string{"日本語日本語一", "日本語日本語二"}, []string{"日本…語一", "日本…語二"}},
		{20, []string{"go:example.com/long/path/pkg.(*T).Get", "go:main.f"}, []string{"go:…/pkg.(*T).Get", "go:main.f"}},
		{18, []string{"go:a.com/b/pkg.F[a.com/c.D]", "go:a.com/b/pkg.G[a.com/c.D]"}, []string{"go:…/pkg.F[a.com/…", "go:…/pkg.G[a.com/…"}},
	} {
		table := Table{Width: c.width}
		for _, cell := range c.cells {
			table.Add(cell)
		}
		got := strings.Split(strings.TrimSuffix(string(table.Text()), "\n"), "\n")
		assert.Equal(t, c.want, got)
		for _, line := range got {
			assert.LessOrEqual(t, text.Width(line), c.width)
		}
	}
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
		inner := &sdt.Type{Kind: sdt.TypeKind(kind % 9), Size: size, Count: count}
		char := &sdt.Type{Kind: sdt.KindChar, Size: 1}
		inner.Elem = char
		array := &sdt.Type{Kind: sdt.KindArray, Size: size, Count: count, Elem: inner}
		whole := &sdt.Type{Kind: sdt.KindStruct, Size: int64(len(content)), Fields: []sdt.Field{
			{Name: "a", Type: inner, Offset: offset}, {Name: "b", Type: inner, Offset: offset, BitOffset: bitOffset, BitSize: bitSize},
			{Name: "c", Type: array, Offset: offset}, {Name: "d", Type: &sdt.Type{Kind: sdt.KindArray, Elem: char, Count: count}, Offset: offset},
		}}
		d := &value.Details{Type: whole, Size: len(content)}
		for _, in := range []notation{forPeople, asJSON} {
			fs := fields{notation: in, d: d, v: &value.Value{Struct: content}}
			out := fs.structure(nil, whole, 0)
			if in == asJSON {
				assert.True(t, json.Valid(out), "%s", out)
			}
		}
	})
}

// TestArraysOfArrays: a type cannot make an event of 512 bytes endless.
func TestArraysOfArrays(t *testing.T) {
	for _, size := range []int64{1, 0} { // of all arrays, as a hostile file has it, or as it is
		of := &sdt.Type{Kind: sdt.KindUint, Size: 1}
		for range maxDepth {
			of = &sdt.Type{Kind: sdt.KindArray, Elem: of, Count: maxElements, Size: size}
			if size == 0 {
				of.Size = of.Count * of.Elem.Size
			}
		}
		whole := &sdt.Type{Kind: sdt.KindStruct, Size: 1 << 32, Fields: []sdt.Field{{Name: "a", Type: of}}}
		item := &value.Item{Name: "p", Details: &value.Details{Type: whole}}
		v := &value.Value{Bits: 1, Struct: make([]byte, 512)}
		assert.Less(t, len(AppendText(nil, item, v)), 50<<10)
		out := AppendJSON(nil, item, v)
		assert.Less(t, len(out), 50<<10)
		assert.True(t, json.Valid(out))
	}
}

func TestPrintable(t *testing.T) {
	for s, want := range map[string]string{"plain": "plain", "ä": "ä", "a\x1b[2Jb": "a\ufffd[2Jb", "\xff": "\ufffd", "\x7f": "\ufffd"} {
		assert.Equal(t, want, Printable(s), s)
	}
}

// TestUnits: what a number counts decides how it is shown, in text and as JSON.
func TestUnits(t *testing.T) {
	for unit, want := range map[kind.Unit][2]string{
		kind.None: {"60000000000", "60000000000"}, kind.Nanoseconds: {"1m0s", "60000000000"},
		kind.Address: {"0xdf8475800", `"0xdf8475800"`},
	} {
		of := expr.Type{Kind: expr.Uint, Size: 8, Unit: unit}
		assert.Equal(t, want[0], string(AppendNumber(nil, of, 60_000_000_000)))
		assert.Equal(t, want[1], string(asJSON.number(nil, of, 60_000_000_000)))
	}
}

// TestFieldUnits: a field of a struct counts what its type counts, be it signed or not, if it has the type's size.
func TestFieldUnits(t *testing.T) {
	defer func(was kind.Row) { kind.Rows[kind.Pointer] = was }(kind.Rows[kind.Pointer])
	kind.Rows[kind.Pointer] = kind.Row{Class: kind.Uint, Unit: kind.Address, Size: 4, Sent: "shop.Handle"}
	content := []byte{7, 0, 0, 0, 0, 0, 0, 0}
	for _, row := range kind.Rows {
		if row.Unit == kind.None {
			continue
		}
		of := &sdt.Type{Name: row.Sent, Kind: sdt.KindInt, Size: int64(row.Size)}
		if row.Class == kind.Uint {
			of.Kind = sdt.KindUint
		}
		f := fields{d: &value.Details{Type: of}, v: &value.Value{Struct: content}}
		want := kind.AppendText(nil, row.Class, row.Unit, row.Size, 7)
		assert.Equal(t, string(want), string(f.value(nil, of, 0)), row.Sent)
		of.Size /= 2
		assert.Equal(t, "7", string(f.value(nil, of, 0)), row.Sent)
	}
}

// TestFieldTimes: a time.Time in a struct is shown as an argument is, but one without the content of one as a struct.
func TestFieldTimes(t *testing.T) {
	word := func(name string, kind sdt.TypeKind, offset int64) sdt.Field {
		return sdt.Field{Name: name, Type: &sdt.Type{Kind: kind, Size: 8}, Offset: offset}
	}
	at := &sdt.Type{Name: "time.Time", Kind: sdt.KindStruct, Size: 24, Fields: []sdt.Field{
		word("wall", sdt.KindUint, 0), word("ext", sdt.KindInt, 8), word("loc", sdt.KindPointer, 16),
	}}
	whole := &sdt.Type{Kind: sdt.KindStruct, Size: 32, Fields: []sdt.Field{
		{Name: "n", Type: &sdt.Type{Kind: sdt.KindInt, Size: 8}}, {Name: "at", Type: at, Offset: 8},
	}}
	show := func(content []byte, in notation) string {
		f := fields{notation: in, d: &value.Details{Type: whole}, v: &value.Value{Struct: content}}
		return string(f.structure(nil, whole, 0))
	}
	type content struct {
		n  int64
		at time.Time
	}
	now := time.Now() // with the monotonic clock, as few others
	for _, moment := range []time.Time{
		{}, now, now.Round(0), time.Unix(0, 0), time.Date(1700, 1, 2, 3, 4, 5, 6, time.UTC), time.Unix(kind.LastSecond, 999_999_999),
		time.Unix(1, 1).In(time.FixedZone("", 3600)),
	} {
		c := content{7, moment}
		// SAFETY: the bytes are those of c, which lives until the end of the loop's body.
		b := unsafe.Slice((*byte)(unsafe.Pointer(&c)), unsafe.Sizeof(c))
		want := moment.UTC().Format(time.RFC3339Nano)
		assert.Equal(t, "{n=7 at="+want+"}", show(b, forPeople))
		assert.Equal(t, `{"n":7,"at":"`+want+`"}`, show(b, asJSON))
		at.Name = "time.Time#1"
		assert.Equal(t, "{n=7 at="+want+"}", show(b, forPeople))
		assert.Contains(t, show(b[:20], forPeople), " at={wall=", "only a part was read")
		for _, name := range []string{"time.Duration", "shop.Time", ""} {
			at.Name = name
			assert.Contains(t, show(b, forPeople), " at={wall=", name)
		}
		at.Name = "time.Time"
		runtime.KeepAlive(&c)
	}
	for _, wrong := range [][2]uint64{{1e9, 0}, {1 << 30, 0}, {0, 1 << 63}, {0, kind.LastSecond - kind.Start1 + 1}, {0, math.MaxInt64}} {
		b := binary.LittleEndian.AppendUint64(make([]byte, 8), wrong[0])
		b = append(binary.LittleEndian.AppendUint64(b, wrong[1]), make([]byte, 8)...)
		assert.Contains(t, show(b, forPeople), " at={wall=", wrong)
	}
	at.Fields[1].Name = "other"
	assert.Contains(t, show(make([]byte, 32), forPeople), " at={wall=0 other=0 loc=0x0}")
}

// TestLongStruct: a struct that would fill a screen is a line of its own fields, and whole as JSON.
func TestLongStruct(t *testing.T) {
	const words = 30
	word := &sdt.Type{Kind: sdt.KindUint, Size: 8}
	pair := &sdt.Type{Kind: sdt.KindStruct, Size: 16, Fields: []sdt.Field{{Name: "x", Type: word}, {Name: "y", Type: word, Offset: 8}}}
	list := &sdt.Type{Kind: sdt.KindArray, Size: 16, Count: 2, Elem: word}
	show := func(fields ...sdt.Field) (text, inJSON string) {
		whole := &sdt.Type{Kind: sdt.KindStruct, Size: 8 * words, Fields: fields}
		item := &value.Item{Name: "p", Type: expr.Type{Kind: expr.Uint, Size: 8}, Details: &value.Details{Type: whole}}
		v := &value.Value{Type: item.Type, Bits: 1, Struct: make([]byte, 8*words)}
		return string(AppendText(nil, item, v)), string(AppendJSON(nil, item, v))
	}
	text, _ := show(sdt.Field{Name: "at", Type: pair}, sdt.Field{Name: "all", Type: list}, sdt.Field{Name: "far", Type: word, Offset: 8 * words})
	assert.Equal(t, "{at={x=0 y=0} all=[0 0] far=…}", text, "a short one is whole")
	fields := []sdt.Field{{Name: "far", Type: word, Offset: 8 * words}, {Name: "at", Type: pair}, {Name: "all", Type: list}}
	for i := range words {
		fields = append(fields, sdt.Field{Name: fmt.Sprint("field", i), Type: word, Offset: int64(8 * i)})
	}
	text, inJSON := show(fields...)
	assert.Regexp(t, `^{at={…} all=\[…\] field0=0 field1=0 .*field[0-9]+=0 …}$`, text)
	assert.LessOrEqual(t, len(text), maxLine+20)
	assert.Contains(t, inJSON, `"at":{"x":0,"y":0},"all":[0,0],"field0":0`)
	assert.Contains(t, inJSON, `"field29":0}`)
}

// TestStacks: the functions of equal stacks are shown once for people, and in each object and record.
func TestStacks(t *testing.T) {
	one := &Stack{Lines: []string{"main.get (main.go:7)", "main.main (main.go:9)"}}
	again := &Stack{Lines: []string{"main.get (main.go:7)", "main.main (main.go:9)"}}
	other := &Stack{Lines: []string{"[cut: not readable]"}}
	probe := &recording.Probe{Provider: "p", Name: "x"}
	for format, want := range map[query.Format][]string{
		query.Text: {" stack=1\n        main.get (main.go:7)\n        main.main (main.go:9)\n", " stack=1\n", " stack=2\n        [cut: not readable]\n"},
		query.JSON: {`,"stack":["main.get (main.go:7)","main.main (main.go:9)"]}` + "\n", `,"stack":["main.get (main.go:7)","main.main (main.go:9)"]}` + "\n", `,"stack":["[cut: not readable]"]}` + "\n"},
		query.CSV:  {",main.main (main.go:9);main.get (main.go:7)\r\n", ",main.main (main.go:9);main.get (main.go:7)\r\n", ",[cut: not readable]\r\n"},
	} {
		printer := NewPrinter(format, Style{Stacks: true})
		printer.Know(probe)
		for i, stack := range []*Stack{one, again, other} {
			printer.Stack(stack)
			printer.Event(&Probe{}, nil, &recording.Event{Probe: probe})
			var out bytes.Buffer
			require.NoError(t, printer.Flush(&out))
			require.True(t, strings.HasSuffix(out.String(), want[i]), "%q", &out)
		}
	}
}
