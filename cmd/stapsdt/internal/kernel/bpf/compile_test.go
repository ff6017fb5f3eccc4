//go:build linux && (amd64 || arm64)

package bpf

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/rlimit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sample is a probe with an argument of each type, by these names.
func sample() *Probe {
	char := &sdt.Type{Name: "char", Kind: sdt.KindChar, Size: 1}
	p := &Probe{Provider: "test", Name: "sample"}
	for _, a := range []struct {
		name, operand string
		kind          sdt.TypeKind
		float         bool
	}{
		{"i8", "-1@%dil", sdt.KindInt, false}, {"i16", "-2@%si", sdt.KindInt, false}, {"i32", "-4@%edx", sdt.KindInt, false}, {"i64", "-8@%rcx", sdt.KindInt, false},
		{"u8", "1@%dil", sdt.KindUint, false}, {"u16", "2@%si", sdt.KindUint, false}, {"u32", "4@%edx", sdt.KindUint, false}, {"u64", "8@%rcx", sdt.KindUint, false},
		{"f32", "4@%r8d", sdt.KindFloat, true}, {"f64", "8@%r9", sdt.KindFloat, true}, {"b", "1@%r10b", sdt.KindBool, false}, {"s", "8@%r11", sdt.KindPointer, false},
	} {
		arg := sdt.ParseArgs(elf.EM_X86_64, a.operand)[0]
		arg.Name, arg.Float = a.name, a.float
		arg.Type = &sdt.Type{Kind: a.kind, Size: int64(arg.Size)}
		if a.kind == sdt.KindPointer {
			arg.Type.Elem = char
		}
		p.Args = append(p.Args, Arg{Arg: arg})
	}
	return p
}

// machine evaluates expressions in the kernel, by BPF_PROG_TEST_RUN.
type machine struct {
	t      testing.TB
	result *ebpf.Map
}

func newMachine(t testing.TB) *machine {
	testenv.NeedsRoot(t)
	require.NoError(t, rlimit.RemoveMemlock())
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1})
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return &machine{t, m}
}

// values are those of the arguments of sample.
type values [12]expr.Value

func (m *machine) run(e *Expr, v *values) (bits uint64, fault bool) {
	m.t.Helper()
	b := newBuilder(&Env{}, sample())
	// Instead of fetching, the variables are put where an event has them.
	for i, src := range e.vars.sources[:len(v)] {
		t := e.vars.vars[i].Type
		if t.Kind == expr.String {
			visible := []byte(v[i].Text() + "\x00")
			if len(visible) > textRead {
				visible = append(visible[:textRead-1:textRead-1], 0)
			}
			b.putText(src, visible)
			continue
		}
		at := b.alloc(8)
		b.constant(asm.R0, int64(register(t, v[i])))
		b.add(asm.StoreMem(asm.RFP, at, asm.R0, asm.DWord))
		b.nums[src] = at
	}
	(&compiler{b, e}).value(e.Root)
	return m.finish(b, e.String())
}

// putText emits code that puts a string, with its NUL, where a program has that of the source.
func (b *builder) putText(src origin, visible []byte) {
	at, length := b.alloc(textSlot), b.alloc(8)
	var whole [textSlot]byte
	copy(whole[:], visible)
	for i := 0; i < textSlot; i += 8 {
		b.constant(asm.R0, int64(binary.NativeEndian.Uint64(whole[i:])))
		b.add(asm.StoreMem(asm.RFP, at+int16(i), asm.R0, asm.DWord))
	}
	b.constant(asm.R0, int64(len(visible)))
	b.add(asm.StoreMem(asm.RFP, length, asm.R0, asm.DWord))
	b.texts[src] = &text{at: at, size: textSlot, length: length}
}

// finish runs a program that leaves its result in R0.
func (m *machine) finish(b *builder, what string) (bits uint64, fault bool) {
	m.t.Helper()
	b.add(asm.Mov.Reg(regTime, asm.R0), asm.Mov.Imm(regMissing, 0))
	b.jump("store")
	b.label("fault")
	b.add(asm.Mov.Imm(regTime, 0), asm.Mov.Imm(regMissing, 1))
	b.label("store")
	b.element(m.result, 0, labelExit)
	b.add(
		asm.StoreMem(asm.R0, 0, regTime, asm.DWord),
		asm.StoreMem(asm.R0, 8, regMissing, asm.DWord),
	)
	b.leaveProgram()
	ins, err := b.finish()
	require.NoError(m.t, err, what)
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SocketFilter, Instructions: ins, License: license})
	require.NoError(m.t, err, "%s\n%v", what, ins)
	defer prog.Close()
	_, _, err = prog.Test(make([]byte, 14))
	require.NoError(m.t, err)
	var got [16]byte
	require.NoError(m.t, m.result.Lookup(uint32(0), &got))
	return binary.NativeEndian.Uint64(got[:]), got[8] != 0
}

// register is a value as it is in a register.
func register(t expr.Type, v expr.Value) uint64 {
	switch {
	case t.Kind == expr.Float && t.Size == 4:
		return uint64(math.Float32bits(float32(v.Float())))
	case t.Kind == expr.Float:
		return math.Float64bits(v.Float())
	case t.Kind == expr.Bool && v.Bool():
		return 0xaa // any byte but 0 is true
	}
	return v.Uint()
}

// check compares what the kernel says with what package expr says.
func (m *machine) check(src string, v *values) {
	m.t.Helper()
	e, err := sample().Parse(src)
	require.NoError(m.t, err, src)
	want, wantFault := e.Eval(func(i int) expr.Value { return v[i%len(v)] })
	got, fault := m.run(e, v)
	assert.Equal(m.t, wantFault, fault, "%s, with %v", src, v)
	if !fault {
		assert.Equal(m.t, want.Uint(), got, "%s, with %v", src, v)
	}
}

// interesting are bits at the borders of types.
var interesting = []uint64{0, 1, 2, 3, 7, 63, 64, 65, 127, 128, 255, 256, 1<<15 - 1, 1 << 15, 1<<31 - 1, 1 << 31, 1 << 32, 1<<63 - 1, 1 << 63, math.MaxUint64, math.MaxUint64 - 1}

var (
	someTexts  = []string{"", "a", "/api/", "/api/v1/items/12345678", "aaaaaaaaab", strings.Repeat("x", 63), strings.Repeat("y", 64) + "TAIL", "äöü"}
	someFloats = []float64{0, math.Copysign(0, -1), 1, -1, 1.5, -2.25, math.Inf(1), math.Inf(-1), math.NaN(), math.SmallestNonzeroFloat32, math.MaxFloat32}
)

func randomValues(r *rand.Rand) *values {
	var v values
	for i, a := range sample().Args {
		t := ArgType(a.Arg)
		bits := interesting[r.IntN(len(interesting))]
		if r.IntN(3) == 0 {
			bits = r.Uint64()
		}
		unused := 64 - 8*t.Size
		switch t.Kind {
		case expr.Int:
			v[i] = expr.IntValue(int64(bits<<unused) >> unused)
		case expr.Uint:
			v[i] = expr.UintValue(bits << unused >> unused)
		case expr.Bool:
			v[i] = expr.BoolValue(bits&1 != 0)
		case expr.Float:
			v[i] = expr.FloatValue(someFloats[r.IntN(len(someFloats))])
		case expr.String:
			v[i] = expr.StringValue(someTexts[r.IntN(len(someTexts))])
		}
	}
	return &v
}

// mixed are numbers of several types.
var mixed = []string{"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "100", "-3", "i64", "u64"}

// random returns an expression, with these numbers, that the kernel can evaluate.
func random(r *rand.Rand, numbers []string, depth int, boolean bool) string {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	if !boolean {
		if depth == 0 {
			return pick(numbers...)
		}
		x, y := random(r, numbers, depth-1, false), random(r, numbers, depth-1, false)
		switch r.IntN(6) {
		case 0:
			return "(" + pick("-", "^") + "(" + x + "))"
		case 1:
			return "(" + x + pick("<<", ">>") + pick("3", "u8", "i8", "40", "70") + ")"
		}
		return "(" + x + pick("+", "-", "*", "/", "%", "&", "|", "^", "&^") + y + ")"
	}
	if depth == 0 {
		return pick("b", "s==\"/api/\"", "s!=\"a\"", "strings.HasPrefix(s, \"/api/v1/item\")", "strings.Contains(s, \"ab\")", "strings.Contains(s, \"items/1234567\")",
			"strings.HasSuffix(s, \"i/\")", "len(s) > 5", "f64 > 1", "f32 <= -1", "f64 == 0", "f64 != f64", numbers[0]+" < "+numbers[len(numbers)-1], numbers[0]+" >= 5")
	}
	if r.IntN(2) == 0 {
		return "(" + random(r, numbers, depth-1, false) + pick("==", "!=", "<", "<=", ">", ">=") + random(r, numbers, depth-1, false) + ")"
	}
	if r.IntN(4) == 0 {
		return "!" + random(r, numbers, depth-1, true)
	}
	return "(" + random(r, numbers, depth-1, true) + pick("&&", "||") + random(r, numbers, depth-1, true) + ")"
}

func TestCompile(t *testing.T) {
	m := newMachine(t)
	r := rand.New(rand.NewPCG(3, 4))
	for _, src := range []string{
		"b", "!b", "true", "i64 / i8", "i64 % i8", "u64 / u8", "u64 % u8", "i64 << u8", "i64 >> u8", "u64 >> i8", "-i64", "^u8",
		"i8 < u64", "u64 > i8", "i64 == u64", "u64 != i64", "f64 < 1.5", "f32 >= -2.25", "f64 == 0", "f64 != 0", "f32 == f32", "0 > f64",
		"s == \"\"", "\"a\" == s", "s != \"/api/v1/items/12345678\"", "s == \"" + strings.Repeat("x", 63) + "\"",
		"len(s)", "len(s) == 23", "strings.HasPrefix(s, \"\")", "strings.HasPrefix(s, \"" + strings.Repeat("y", 64) + "\")",
		"strings.Contains(s, \"v1/items/1234567\")", "strings.Contains(s, \"a\")", "strings.Contains(s, \"xxxxxxxx\")", "strings.Contains(s, \"xxxxxxxxx\")", "strings.Contains(s, \"aab\")",
		"strings.Contains(s, \"ö\")", "strings.HasSuffix(s, \"b\")", "strings.HasSuffix(s, \"s/12345678\")", "strings.HasSuffix(s, \"xxxxxxxxxxxxxxxx\")",
		"i64 > 1.5ms", "i64 / 2us", "u64 % 1h30m", "u8 != 0 && u64/u8 > 3", "u8 == 0 || u64/u8 > 3", "(i8 > 0) == b",
	} {
		for range 30 {
			v := randomValues(r)
			if len(v[11].Text()) > value.TextSize && (strings.Contains(src, "len") || strings.Contains(src, "Suffix")) {
				// What follows the first bytes is unknown here: that is a fault.
				e, err := sample().Parse(src)
				require.NoError(t, err)
				_, fault := m.run(e, v)
				assert.True(t, fault, "%s: no fault", src)
				continue
			}
			m.check(src, v)
		}
	}
}

// TestHeaderString: the header of a Go string is not read as a string of C.
func TestHeaderString(t *testing.T) {
	header := &sdt.Type{Kind: sdt.KindStruct, Size: 16, Fields: []sdt.Field{
		{Name: "str", Type: &sdt.Type{Kind: sdt.KindPointer, Size: 8}},
		{Name: "len", Type: &sdt.Type{Kind: sdt.KindInt, Size: 8}, Offset: 8},
	}}
	p := &Probe{Args: []Arg{{Arg: sdt.Arg{Name: "s", Size: 8, Type: &sdt.Type{Kind: sdt.KindPointer, Size: 8, Elem: header}}}}}
	_, err := p.Parse(`str(s) == "x"`)
	require.ErrorContains(t, err, "s is the address of a Go string's header")
}

// TestRefuse: what cannot be evaluated in the kernel is an error at its place.
func TestRefuse(t *testing.T) {
	for _, c := range []struct {
		src, at, msg string
	}{
		{"b && f64*2 > 1", "*2", "float"},
		{"b && f64 > f32", "f32", "float"},
		{"b && f64 > i8", "i8", "float"},
		{"b && s == s", "s", "constant"},
		{"b && s < \"x\"", "<", "== and !="},
		{"b && strings.Contains(s, \"12345678901234567\")", `"1234`, "17 bytes, but at most 16"},
		{"b && strings.HasPrefix(\"x\", s)", `"x"`, "variable"},
		{"b && s == \"a\\x00b\"", `"a`, "NUL"},
		{"b && s == \"" + strings.Repeat("x", 64) + "\"", `"x`, "64 bytes, but at most 63"},
		{"b && comm == \"sixteen letters.\"", `"s`, "at most 15"},
		{"b && len(comm) > 3", "len", "comm"},
		{"b && nonsense", "nonsense", "undefined"},
		{"b && str(b) == \"\"", "str", "1 bytes"},
		{"b && str(i64+1) == \"\"", "str", "name of one argument"},
		{"b && str(pid) == \"\"", "str", "not an argument"},
		{"b && str(1ms) == \"\"", "str", "name of one argument"},
		{"b && str(i64) == '/x'", "'/x'", `double quotes: "/x"`},
	} {
		p := sample()
		e, err := p.ParseFilter(c.src)
		if err == nil {
			b := newBuilder(&Env{}, p)
			for i, s := range e.vars.sources {
				if e.vars.vars[i].Type.Kind == expr.String {
					b.texts[s] = &text{size: textSlot}
					if s.kind == fromComm {
						b.texts[s].size = layout.CommSize
					}
				} else {
					b.nums[s] = 0
				}
			}
			(&compiler{b, e}).cond(e.Root, "yes", "no")
			err = b.err
		}
		var wrong *expr.Error
		if !assert.ErrorAs(t, err, &wrong, c.src) {
			continue
		}
		assert.Equal(t, c.src, wrong.Src)
		assert.True(t, strings.HasPrefix(c.src[wrong.Pos:], c.at), "%s: %d %v", c.src, wrong.Pos, wrong)
		assert.Contains(t, wrong.Msg, c.msg, c.src)
	}
}

func TestStackLimit(t *testing.T) {
	p := sample()
	for i := range p.Args {
		p.Args[i].Name = fmt.Sprint("t", i)
		p.Args[i].Type = sample().Args[11].Type
		p.Args[i].Arg.Size = 8
	}
	e, err := p.ParseFilter(`t0=="" && t1=="" && t2=="" && t3=="" && t4=="" && t5==""`)
	require.NoError(t, err)
	b := newBuilder(&Env{}, p)
	b.label("exit")
	b.filter(e, "exit")
	b.add(asm.Return())
	_, err = b.finish()
	assert.ErrorIs(t, err, errStack)
}

// edges returns the first values of all buckets, and those before them.
func edges(buckets query.Buckets, t expr.Type) (all []uint64) {
	for i := range buckets.Len() {
		first := uint64(0)
		switch low, _ := buckets.Bounds(i); {
		case math.IsInf(low, 0):
			continue
		case t.Kind == expr.Int:
			first = uint64(int64(low))
		default:
			first = uint64(low)
		}
		all = append(all, first-1, first)
	}
	return all
}

// TestBuckets: the kernel, this process and the bounds agree on the bucket of a value.
func TestBuckets(t *testing.T) {
	m := newMachine(t)
	for _, buckets := range querytest.Buckets {
		for _, typ := range []expr.Type{{Kind: expr.Int, Size: 8}, {Kind: expr.Uint, Size: 8}} {
			if buckets.Fits(typ) != nil {
				continue
			}
			for _, v := range append(edges(buckets, typ), interesting...) {
				b := newBuilder(&Env{}, sample())
				b.constant(asm.R0, int64(v))
				b.bucketOf(buckets, typ)
				got, _ := m.finish(b, "")
				want := buckets.Of(typ, v)
				assert.Equal(t, uint64(want), got, "%v: %d", buckets, int64(v))
				assert.Less(t, want, buckets.Len(), "%v: %d", buckets, int64(v))
				value := toFloat(typ, v)
				low, high := buckets.Bounds(want)
				// Bounds are rounded to float64.
				assert.GreaterOrEqual(t, value, low, "%v: %v is not within its bucket", buckets, value)
				assert.LessOrEqual(t, value, high, "%v: %v is not within its bucket", buckets, value)
				if value == high {
					assert.GreaterOrEqual(t, math.Abs(high), float64(1<<53), "%v: %v is not within its bucket", buckets, value)
				}
			}
		}
	}
	for _, wrong := range []query.Linear{
		{}, {High: 10}, {Low: 10, High: 10, Step: 1}, {Low: 10, Step: 1}, {High: 100000, Step: 1}, {Low: math.MinInt64, High: math.MaxInt64, Step: 1},
	} {
		assert.Error(t, wrong.Check(), wrong)
	}
}

// TestTimeMemory: a time.Time in memory is the same moment in the kernel, or none.
func TestTimeMemory(t *testing.T) {
	m := newMachine(t)
	r := rand.New(rand.NewPCG(1, 2))
	moments := 0
	for _, c := range []struct{ walls, exts []uint64 }{
		{[]uint64{0, 999_999_999, 1e9, 1 << kind.WallFraction}, []uint64{
			0, 1, -kind.Start1, kind.Start1885 - kind.Start1, kind.FirstSecond - kind.Start1 - 1,
			kind.FirstSecond - kind.Start1, kind.LastSecond - kind.Start1,
			kind.LastSecond - kind.Start1 + 1, math.MaxInt64, 1 << 63, math.MaxUint64,
		}},
		{[]uint64{1 << 63, 1<<63 | r.Uint64()&^(1<<29), math.MaxUint64}, []uint64{0, r.Uint64()}},
	} {
		for _, wall := range c.walls {
			for _, ext := range c.exts {
				b := newBuilder(&Env{}, sample())
				b.constant(asm.R0, int64(wall))
				operand := sdt.Operand{Kind: sdt.OperandConstant, Displacement: int64(ext)}
				require.NoError(t, b.moment(Arg{Ext: &operand}, "fault"))
				got, fault := m.finish(b, "moment")
				want, ok := kind.FromWords(wall, ext)
				require.Equal(t, ok, !fault, "%#x %#x", wall, ext)
				if ok {
					moments++
					require.Equal(t, want, int64(got), "%#x %#x", wall, ext)
				}
			}
		}
	}
	require.Equal(t, 13, moments)
}

// TestMoments: what times have, and when they have none, is the same in the kernel.
func TestMoments(t *testing.T) {
	m := newMachine(t)
	p := sample()
	for _, i := range []int{3, 7} {
		p.Args[i].Type = &sdt.Type{Name: "time.Time", Kind: sdt.KindInt, Size: 8}
	}
	const at, unset, late = 1_767_323_045_000_000_000, math.MinInt64, math.MaxInt64 // 2026-01-02T03:04:05Z
	faults := 0
	for _, src := range []string{
		`i64 - u64`, `u64 - i64`, `i64 + 1h`, `1h + i64`, `i64 - 1h == u64`, `i64 > u64`, `i64 == "2026-01-02T03:04:05Z"`,
		`u64 - "2026-01-02T03:04:05Z"`, `i64 != "0001-01-01T00:00:00Z" && u64 - i64 > 1s`,
	} {
		e, err := p.Parse(src)
		require.NoError(t, err, src)
		for _, pair := range [][2]int64{{at, at + 5}, {at, unset}, {unset, at}, {late, at}, {at, late}, {0, -1}} {
			var v values
			v[3], v[7] = expr.IntValue(pair[0]), expr.IntValue(pair[1])
			want, wantFault := e.Eval(func(i int) expr.Value { return v[i%len(v)] })
			got, fault := m.run(e, &v)
			require.Equal(t, wantFault, fault, "%s, with %v", src, pair)
			if faults++; !fault {
				faults--
				require.Equal(t, want.Uint(), got, "%s, with %v", src, pair)
			}
		}
	}
	require.Equal(t, 19, faults)
}
