package expr

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// variables of a Go program, each with values that are interesting.
var variables = []struct {
	name, goType string
	typ          Type
	values       []string
}{
	{"i8", "int8", Type{Kind: Int, Size: 1}, []string{"-128", "-1", "0", "7", "127"}},
	{"i16", "int16", Type{Kind: Int, Size: 2}, []string{"-32768", "3", "32767"}},
	{"i32", "int32", Type{Kind: Int, Size: 4}, []string{"-2147483648", "-1", "500", "2147483647"}},
	{"i64", "int64", Type{Kind: Int, Size: 8}, []string{"-9223372036854775808", "-1", "1", "9223372036854775807"}},
	{"j64", "int64", Type{Kind: Int, Size: 8}, []string{"-1", "3", "-7"}},
	{"u8", "uint8", Type{Kind: Uint, Size: 1}, []string{"0", "1", "200", "255"}},
	{"u16", "uint16", Type{Kind: Uint, Size: 2}, []string{"0", "65535"}},
	{"u32", "uint32", Type{Kind: Uint, Size: 4}, []string{"1", "4294967295"}},
	{"u64", "uint64", Type{Kind: Uint, Size: 8}, []string{"0", "5", "18446744073709551615"}},
	{"f32", "float32", Type{Kind: Float, Size: 4}, []string{"0.1", "-2.5", "16777216", "1e-45"}},
	{"f64", "float64", Type{Kind: Float, Size: 8}, []string{"0.1", "-2.5", "9007199254740992", "1e308"}},
	{"b", "bool", Type{Kind: Bool, Size: 1}, []string{"true", "false"}},
	{"s", "string", Type{Kind: String}, []string{`""`, `"/api/items"`, `"\xff\x00"`}},
	{"d", "time.Duration", Type{Kind: Int, Size: 8, Unit: kind.Nanoseconds}, []string{"0", "1500000000", "-3"}},
}

// rounds is the number of combinations of values that each expression is evaluated with.
const rounds = 60

// value returns the number of the value that a variable has in a round.
func value(variable, round int) int {
	return (round*(variable*2+1) + round/len(variables[variable].values)) % len(variables[variable].values)
}

// expressions mean the same to us and to the Go compiler, or are errors for both.
var expressions = []string{
	"i8 + 1 > i8", "i8 * i8 == 1", "-i8 == i8", "^i8 == 0", "i8 - 100 < 0", "i8 << 1 > 0", "i8 >> 1 == -64", "i8 << u8 == 0", "i8 >> u8 == -1",
	"u8 + 100 > 100", "u8 - 1 == 255", "u8 * 3 == 88", "-u8 == 56", "^u8 == 55", "u8 << 3 == 64", "u8 >> 3 == 25", "u8 &^ 15 == 192", "u8 ^ 255 == 0", "u8 | 7 == 255", "u8 & 0x0f == 8",
	"i16 * 3 < 0", "u16 + 1 == 0", "i32 / 7 == 71", "i32 % 7 == 3", "i32 * i32 == 1", "i32 >> 31 == -1", "i64 / j64 < 0", "i64 % j64 == 0", "i64 - j64 > 0", "i64 * j64 < 0",
	"u32 * u32 == 1", "u64 - 10 > u64", "u64 << 60 == 5<<60", "u64 >> 63 == 1", "u64 / 3 == 1", "u64 % 3 == 0", "i64 == -1 << 63", "u64 == 1<<64 - 1",
	"f32 + 0.2 == 0.3", "f32 * 3 == 0.3", "f32 / 3 < 0", "f32 + 1 == f32", "f32 == 0.1", "f32 * f32 > 6", "f64 == 0.1", "f64 * 10 == 1", "f64 * 1e10 > 1e300", "-f64 == 2.5", "f64 + 1 == f64", "f64 / 0 > 1",
	"b", "!b", "b == true", "b != false && b", "b || i32 > 0 && !b", "i32 > 0 == b", "(b) && (!(b))",
	`s == ""`, `s != "x" && s < "0"`, `s > "/api"`, `s <= "/api/items"`, `len(s) == 2`, `len(s)*2 > 3`, `strings.HasPrefix(s, "/api/")`, `strings.HasSuffix(s, "\x00")`, `strings.Contains(s, "pi")`, "s == `/api/items`",
	`strings.Contains("seafood", "foo") && b`, `len("日本") == 6`, `strings.HasPrefix("a", s)`,
	"d > time.Second", "d == 1500*time.Millisecond", "d/2 < time.Second", "d < -2*time.Nanosecond", "d*2 == 3*time.Second", "d > time.Minute-time.Hour", "d % time.Second == 500*time.Millisecond", "d > 0",
	"1 < 2", "2.5 * 2 == 5", "1/2 == 0", "1/2.0 == 0.5", "-7/2 == -3", "-7%2 == -1", "1<<62 > 1e18", "0x10 == 16 && 0b11 == 3 && 0o17 == 15 && 1_000 == 1e3", "'a' + 1 == 98", "1<<10>>5 == 32", "^0 == -1", "7 &^ 2 == 5", "1.0<<3 == 8", `"a" < "b"`, "true != false",
	"i8 == 127.0", "u8 < 'z'", "f32 > 1", "i64 > 1e3", "i32 == +5", "i64 << 70 == 0", "i64 >> 70 == -1", "u8 << 1.0 == 2",
	"i64 + 9223372036854775807 < 0", "i64&0xff == 255", "u64&(u64-1) == 0", "i32 == 0 || i32 != 0 && 1000/i32 > 1", "(i64 - i64/10*10) == i64 % 10",
	"10/u8 > 0", "u64 % (u64-5) == 0", "j64 << j64 == 0", "j64 >> i64 == 0", "i64/(j64+1) > 0", "u16 > 0 && 100/u16 > 0", "!(100/u16 > 0)",
	// Errors.
	"i8 == 128", "i8 == -129", "u8 == 256", "u8 == -1", "i16 == 1<<15", "u64 == 1<<64", "i64 == 1<<63", "i32 == 0.5", "f32 == 1e39", "f64 == 1e309", "d > 1.5*time.Second", "d > 1<<63",
	"s == 1", "s == 'a'", "b == 1", "i32 == true", "i32 && b", "!i32", "-s == s", "^f64 == 1", "b < b", "f64 % 2 == 0", "f32 & 1 == 0", "f64 << 1 == 0", "i8 << 1.5 == 0", "i8 << -1 == 0", "i32 / 0 == 1", "i32 % 0 == 1", "1/0 == 1", "1.0/0.0 == 1", "5.5 % 2 == 1", "^1.5 == 1",
	"len(i32) == 1", "len() == 1", "len(s, s) == 1", "len(1) == 1", "strings.HasPrefix(s)", "strings.HasPrefix(s, 1)", "strings.NoSuch(s)", "undefined == 1", "s[", "b &&", "", "b b", "1 +", "time.NoSuch > d", "time.Hour * 1e10 > d", "2562048*time.Hour > d", "1<<600 == 0", "i8 = 1",
	"s == nil", "strings == s", "len == 1", "-b", "s && s", `s == "\xzz"`, "08 == 8", "'ab' == 1", "1__0 == 10",
}

// program returns the vars of the expressions, and the beginning of a Go program that declares
// them.
func program() (vars []Var, source string) {
	var b strings.Builder
	b.WriteString("package main\n\nimport (\n\t\"fmt\"\n\t\"strings\"\n\t\"time\"\n)\n\nvar _, _ = strings.Contains, fmt.Print\nvar _ time.Duration\n\n")
	for _, v := range variables {
		vars = append(vars, Var{Name: v.name, Type: v.typ})
		fmt.Fprintf(&b, "var %s %s\n", v.name, v.goType)
	}
	return vars, b.String()
}

// TestGoTypesAgree: go/types accepts what we accept, and its constants are ours.
func TestGoTypesAgree(t *testing.T) {
	vars, source := program()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "main.go", source+"func main() {}\n", 0)
	require.NoError(t, err)
	config := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	pkg, err := config.Check("main", fset, []*ast.File{file}, nil)
	require.NoError(t, err)
	inMain := file.End() - 2 // sees the file's imports

	accepted := 0
	for _, src := range expressions {
		want, goErr := types.Eval(fset, pkg, inMain, src)
		e, err := ParseFilter(src, vars)
		if goErr != nil {
			require.Error(t, err, "%q: Go says %v", src, goErr)
			continue
		}
		require.NoError(t, err, "%q", src)
		accepted++
		if want.Value != nil {
			match, _ := e.Bool(func(int) Value { panic("a constant") })
			require.Equal(t, constant.BoolVal(want.Value), match, src)
		}
	}
	require.Greater(t, accepted, 90)
	require.Greater(t, len(expressions)-accepted, 55)
}

// TestCompilerAgrees runs the expressions as a Go program, with many values.
func TestCompilerAgrees(t *testing.T) {
	testenv.Long(t, "it compiles a program")
	goTool := testenv.NeedsTool(t, "go", "golang")
	vars, source := program()
	var b strings.Builder
	b.WriteString(source)
	b.WriteString(`
func try(f func() bool) {
	defer func() {
		if recover() != nil {
			fmt.Print("!")
		}
	}()
	if f() {
		fmt.Print("1")
	} else {
		fmt.Print("0")
	}
}

func main() {
`)
	var filters []*Expr
	for _, src := range expressions {
		if e, err := ParseFilter(src, vars); err == nil {
			filters = append(filters, e)
		}
	}
	for round := range rounds {
		for i, v := range variables {
			fmt.Fprintf(&b, "\t%s = %s\n", v.name, v.values[value(i, round)])
		}
		b.WriteString("\tround()\n")
	}
	b.WriteString("}\n\nfunc round() {\n")
	for _, e := range filters {
		fmt.Fprintf(&b, "\ttry(func() bool { return %s })\n", e)
	}
	b.WriteString("\tfmt.Println()\n}\n")
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	cmd := exec.Command(goTool, "run", file)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, lines, rounds)

	seen := map[byte]int{}
	for round, line := range lines {
		require.Len(t, line, len(filters))
		for i, e := range filters {
			match, fault := e.Bool(func(i int) Value { return parse(t, variables[i].typ, variables[i].values[value(i, round)]) })
			got := byte('0')
			switch {
			case fault:
				got = '!'
			case match:
				got = '1'
			}
			seen[got]++
			require.Equal(t, string(line[i]), string(got), "%s in round %d", e, round)
		}
	}
	require.Greater(t, seen['0'], 1000)
	require.Greater(t, seen['1'], 1000)
	require.Greater(t, seen['!'], 10)
}

// parse returns the value of a variable from its text in Go.
func parse(t *testing.T, typ Type, text string) Value {
	if typ.Kind == Uint {
		u, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		return UintValue(u)
	}
	e, err := Parse(text, nil)
	require.NoError(t, err)
	v, _ := e.Eval(nil)
	if typ.Kind == Float {
		if e.Type().Kind == Int {
			v = FloatValue(float64(v.Int()))
		}
		if typ.Size == 4 {
			v = FloatValue(float64(float32(v.Float())))
		}
	}
	return v
}
