package expr

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-stapsdt/stapsdt/internal/kind"
)

// world is the names that the tests use, with values.
type world struct {
	vars   []Var
	values []Value
}

func (w *world) add(name string, t Type, v Value) {
	w.vars, w.values = append(w.vars, Var{Name: name, Type: t}), append(w.values, v)
}

func (w *world) get(i int) Value { return w.values[i] }

func shopWorld() *world {
	w := &world{}
	w.add("path", Type{Kind: String}, StringValue("/api/items"))
	w.add("status", Type{Kind: Int, Size: 4}, IntValue(503))
	w.add("elapsed", Type{Kind: Int, Size: 8, Unit: kind.Nanoseconds}, IntValue(int64(25*time.Millisecond)))
	w.add("bytes", Type{Kind: Uint, Size: 8}, UintValue(math.MaxUint64))
	w.add("failed", Type{Kind: Bool}, BoolValue(true))
	w.add("load", Type{Kind: Float, Size: 8}, FloatValue(0.75))
	w.add("single", Type{Kind: Float, Size: 4}, FloatValue(float64(float32(0.1))))
	w.add("nan", Type{Kind: Float, Size: 8}, FloatValue(math.NaN()))
	w.add("tiny", Type{Kind: Int, Size: 1}, IntValue(-1))
	w.add("zero", Type{Kind: Int, Size: 8}, IntValue(0))
	w.add("small", Type{Kind: Uint, Size: 1}, UintValue(200))
	w.add("big", Type{Kind: Int, Size: 8}, IntValue(1<<53+1))
	return w
}

// TestFilters: what differs from Go, and filters of several parts. TestCompilerAgrees has the rest.
func TestFilters(t *testing.T) {
	w := shopWorld()
	for src, want := range map[string]bool{
		`status >= 500 && strings.HasPrefix(path, "/api/")`:  true,
		`status == 200 || path == "/"`:                       false,
		`elapsed > 10*time.Millisecond`:                      true,
		`elapsed/time.Millisecond == 25`:                     true,
		`elapsed > 10ms && elapsed < .1s && elapsed == 25ms`: true,
		`1m2.5s == time.Minute+2500*time.Millisecond`:        true,
		`elapsed/1ms == 25 && -1us == -1000ns && 1µs == 1μs`: true,
		`1h == 60m && 1000ns == 1us && 010ms == 10ms`:        true,
		`status > 500ns && 1ms-elapsed < 0 && "1ms" != path`: true,
		`nan == nan || nan < 1 || nan >= 1`:                  false,
		`nan != nan`:                                         true,
		`1 < 2 == true`:                                      true,

		// Operands of several types.
		`tiny < bytes && bytes > tiny && tiny != bytes`: true,
		`!(bytes <= tiny) && !(tiny == bytes)`:          true,
		`status > tiny && small < status`:               true,
		`small > tiny && tiny + small == 199`:           true, // int64
		`bytes + tiny < 0`:                              true, // int64, which wraps around
		`big > load && tiny < load && bytes > load`:     true,
		`load*big > 0 && big == 9007199254740993`:       true,
		`elapsed*status > elapsed`:                      true,
		`bytes > elapsed`:                               true,
		`single < load`:                                 true,
	} {
		e, err := ParseFilter(src, w.vars)
		require.NoError(t, err, src)
		match, fault := e.Bool(w.get)
		require.Equal(t, want, match, src)
		require.False(t, fault, src)
		require.Equal(t, src, e.String())
	}
}

// TestExactComparison: 2^53+1 is no float64.
func TestExactComparison(t *testing.T) {
	type compared struct {
		x, y Type
		v, w Value
		want int
	}
	i64, u64, f64 := Type{Kind: Int, Size: 8}, Type{Kind: Uint, Size: 8}, Type{Kind: Float, Size: 8}
	for _, c := range []compared{
		{i64, f64, IntValue(1<<53 + 1), FloatValue(1 << 53), 1},
		{i64, f64, IntValue(-1<<53 - 1), FloatValue(-1 << 53), -1},
		{i64, f64, IntValue(math.MaxInt64), FloatValue(1 << 63), -1},
		{i64, f64, IntValue(math.MinInt64), FloatValue(-1 << 63), 0},
		{i64, f64, IntValue(math.MinInt64), FloatValue(math.Inf(-1)), 1},
		{i64, f64, IntValue(3), FloatValue(3.5), -1},
		{i64, f64, IntValue(-3), FloatValue(-3.5), 1},
		{i64, f64, IntValue(0), FloatValue(-0.5), 1},
		{i64, f64, IntValue(0), FloatValue(math.Copysign(0, -1)), 0},
		{u64, f64, UintValue(math.MaxUint64), FloatValue(1 << 64), -1},
		{u64, f64, UintValue(math.MaxUint64), FloatValue(math.Inf(1)), -1},
		{u64, f64, UintValue(0), FloatValue(-0.5), 1},
		{u64, f64, UintValue(1 << 63), FloatValue(1 << 63), 0},
		{u64, i64, UintValue(1 << 63), IntValue(math.MinInt64), 1},
		{i64, u64, IntValue(math.MinInt64), UintValue(1 << 63), -1},
		{i64, u64, IntValue(math.MaxInt64), UintValue(math.MaxInt64), 0},
	} {
		vars := []Var{{Name: "x", Type: c.x}, {Name: "y", Type: c.y}}
		values := []Value{c.v, c.w}
		for src, want := range map[string]bool{
			"x == y": c.want == 0, "x != y": c.want != 0, "x < y": c.want < 0, "x <= y": c.want <= 0, "x > y": c.want > 0, "x >= y": c.want >= 0,
			"y == x": c.want == 0, "y != x": c.want != 0, "y < x": c.want > 0, "y <= x": c.want >= 0, "y > x": c.want < 0, "y >= x": c.want <= 0,
		} {
			e, err := Parse(src, vars)
			require.NoError(t, err)
			match, _ := e.Bool(func(i int) Value { return values[i] })
			require.Equal(t, want, match, "%s %v %v", src, c.v, c.w)
		}
	}
}

func TestFaults(t *testing.T) {
	w := shopWorld()
	for src, faulty := range map[string]bool{
		`status/zero == 1`:                       true,
		`!(status/zero == 1)`:                    true,
		`status%zero == 1 || true`:               true,
		`true || status%zero == 1`:               false,
		`zero != 0 && status/zero == 1`:          false,
		`zero == 0 || status/zero == 1`:          false,
		`(small-small)/(small-small) == 0`:       true,
		`status << tiny == 0`:                    true,
		`1 >> tiny == 0`:                         true,
		`load/0 > 1`:                             false, // +Inf, as in Go
		`status << 100 == 0 && tiny >> 99 == -1`: false,
	} {
		e, err := ParseFilter(src, w.vars)
		require.NoError(t, err, src)
		match, fault := e.Bool(w.get)
		require.Equal(t, faulty, fault, src)
		require.False(t, match && fault, src)
	}
}

// A hostile program chooses the names of its arguments.
func TestKnownNames(t *testing.T) {
	vars := []Var{{Name: "\x1b[7m"}, {Name: "status"}, {Name: strings.Repeat("n", 1000)}, {Name: "type"}}
	_, err := ParseFilter("pth == 1", vars)
	require.EqualError(t, err, (&Error{Src: "pth == 1", Msg: "undefined: pth; the names are status"}).Error())
}

func TestErrors(t *testing.T) {
	w := shopWorld()
	w.add("type", Type{Kind: String}, Value{}) // no identifier: only arg12 would name it
	for _, c := range []struct{ src, at, msg string }{
		{`status >= 500 && pth == "/"`, `pth`, "undefined: pth; the nearest name is path; the names are path, status, elapsed"},
		{`status = 500`, `= 500`, "use == to compare"},
		{`status >= `, ``, "an operand is missing at the end"},
		{``, ``, "empty"},
		{`status == "500"`, `==`, `mismatched types: status is of type int32, and "500" of type untyped string`},
		{`path == 5`, `==`, "mismatched types: path is of type string, and 5 of type untyped int"},
		{`path == '/'`, `'/'`, `write a string in double quotes: "/" instead of '/'`},
		{`path == '"'`, `'"'`, `write a string in double quotes: "\"" instead of '"'`},
		{`'/' != path`, `'/'`, `write a string in double quotes: "/" instead of '/'`},
		{`strings.HasPrefix(path, '/')`, `'/'`, `write a string in double quotes: "/" instead of '/'`},
		{`1 == "x"`, `==`, "mismatched types"},
		{`status && failed`, `&&`, "the operator && is not defined for status (int32)"},
		{`failed < true`, `<`, "the operator < is not defined for failed (bool)"},
		{`!status == 1`, `!status`, "the operator ! is not defined for status (int32)"},
		{`^load == 1`, `^load`, "the operator ^ is not defined for load (float64)"},
		{`path + "x" == ""`, `+`, "strings cannot be concatenated"},
		{`load % 2 == 0`, `%`, "the operator % is not defined for load (float64)"},
		{`status % load == 0`, `%`, "the operator % is not defined for load (float64)"},
		{`5.5 % 2 == 0`, `%`, "the operator % is not defined for 5.5 (untyped float)"},
		{`small == 256`, `256`, "256 (untyped int) overflows uint8"},
		{`tiny == 128`, `128`, "128 (untyped int) overflows int8"},
		{`status == 2.5`, `2.5`, "2.5 (untyped float) would be truncated to int32"},
		{`single > 1e39`, `1e39`, "overflows float32"},
		{`elapsed > 1e6*time.Hour*24`, `*24`, "the constant overflows time.Duration"},
		{`status / 0 == 1`, `0 ==`, "division by zero"},
		{`1 / 0.0 == 1`, `0.0`, "division by zero"},
		{`status << -1 == 0`, `-1`, "negative shift count"},
		{`status << 1.5 == 0`, `<<`, "the operator << is not defined for 1.5 (untyped float)"},
		{`1 << 5000 == 0`, `5000`, "too large"},
		{`1 << 600 == 0`, `<< 600`, "too large"},
		{`1 << 500 * (1 << 500) == 0`, `* (1`, "too large"},
		{`1e400 > load`, `1e400`, "too large"},
		{`1e999999999 > load`, `1e999`, ""},
		{`99999999999999999999`, `9999`, "overflows int64"},
		{`len(status) == 1`, `status)`, "status is of type int32, but must be a string"},
		{`len(5) == 1`, `5)`, "5 (untyped int) is not a string"},
		{`len() == 1`, `) ==`, "len takes one argument, not 0"},
		{`strings.HasPrefix(path) == true`, `) ==`, "strings.HasPrefix takes two arguments, not 1"},
		{`strings.Contains(path...)`, `)`, "takes two arguments"},
		{`strings.Title(path) == ""`, `strings.T`, "undefined function: strings.Title; the functions are"},
		{`exit(1)`, `exit`, "undefined function: exit"},
		{`strings.HasPrefix`, `strings`, "strings.HasPrefix must be called"},
		{`time.Year`, `time`, "undefined: time.Year"},
		{`time`, `time`, "must be used as in"},
		{`path[0] == 'a'`, `path`, "undefined: path[0]; no part of path is known here"},
		{`[]int{1} == 1`, `[`, "filters consist of"},
		{`&path == 1`, `&path`, "the operator & is not supported"},
		{`func() bool { for {} }()`, `func`, "cannot be called"},
		{`1i == 1`, `1i`, "complex numbers"},
		{`status`, `status`, "the filter is of type int32 and must be a condition in quotes, such as 'status > 0'"},
		{`"x"`, `"x"`, "the filter is of type string and must be a condition"},
		{`type == ""`, `type`, ""},
		{`nil == nil`, `nil`, "cannot be used"},
		{`"\x00` + "\x00" + `" == path`, "\x00", ""},
		{`status == 1; true`, `; true`, "; is not expected here"},
		{`"unterminated`, `"unt`, `the closing quote " is missing`},
		{"status == `x", "`x", "the closing quote ` is missing"},
		{`path == 'x`, `'x`, "the closing quote ' is missing"},
		{`path == '/x'`, `'/x'`, `write a string in double quotes: "/x" instead of '/x'`},
		{`path == “/x”`, `“`, `write a string in double quotes, ", instead of “`},
		{`path == "\d"`, `d"`, `"\d" has a backslash with an unknown meaning`},
		{`path == "\`, `"`, `the closing quote " is missing`},
		{`status := 500`, `:= 500`, ":= assigns"},
		{`failed and load > 1`, `and`, "and is not an operator: use &&"},
		{`not failed`, `failed`, "not is not an operator: use !"},
		{`status <> 500`, `> 500`, "<> is not an operator: use !="},
		{`status === 500`, `= 500`, "=== is not an operator: use =="},
		{`path =~ /miss/`, `=~`, `=~ is not an operator: use strings.Contains(path, "miss")`},
		{`path =~ "^/miss.*"`, `=~`, `use strings.HasPrefix(path, "text")`},
		{`path =~ "^/miss"`, `=~`, `use strings.HasPrefix(path, "/miss")`},
		{`path !~ "gif$"`, `!~`, `!~ is not an operator: use !strings.HasSuffix(path, "gif")`},
		{`failed && path ~ 'x'`, `~`, `~ is not an operator: use strings.Contains(path, "x")`},
		{`path LIKE "%x%"`, `LIKE`, `LIKE is not an operator: use strings.Contains(path, "x")`},
		{`path startsWith "/api"`, `startsWith`, `startsWith is not an operator: use strings.HasPrefix(path, "/api")`},
		{`status in (404, 500)`, `in`, "in is not an operator: use == and ||"},
		{`status BETWEEN 1 and 2`, `BETWEEN`, "BETWEEN is not an operator: use >=, && and <="},
		{`path.startsWith("/")`, `path`, `path.startsWith is not a function: use strings.HasPrefix(path, "/")`},
		{`elapsed > "10ms"`, `"10ms"`, `a duration has no quotes: 10ms instead of "10ms"`},
		{`$status == 1`, `$status`, "'$' is not expected here: a name has none"},
		{`path == /missing`, `/missing`, `write a string in double quotes: "/missing" instead of /missing`},
		{`path == missing || failed`, `missing`, `undefined: missing; the names are`},
		{`path == pth`, `pth`, `undefined: pth; the nearest name is path`},
		{`elapsed > 10 ms`, `ms`, "a duration has no space: 10ms instead of 10 ms"},
		{`elapsed > 1.5  h && failed`, `h &&`, "1.5h instead of 1.5  h"},
		{`string(path) == "/"`, `string`, "string is not a function: give path, because texts and bytes are compared as they are"},
		{`int64(status) > 5`, `int64`, "int64 is not a function: give status, because numbers of different types can be compared and combined"},
		{`()`, `)`, "an operand is missing before )"},
		{`status 500`, `500`, "an operator such as == or && is missing before 500"},
		{`(failed`, ``, "a closing parenthesis or bracket is missing"},
		{`path[`, ``, "an operand is missing at the end"},
		{`failed)`, `)`, ") is not expected here"},
		{"failed\n&& failed", `&& failed`, "a line cannot begin with &&"},
		{"(failed\n&& failed)", "\n&&", "an operator is missing at the end of the line"},
		{`status == $1`, `$1`, "'$' is not expected here"},
		{`status == 08`, `8`, "08 is not a number"},
		{`status == 1e`, ``, "1e is not a number"},
		{`status == 1__0`, `_0`, "1__0 is not a number"},
		{`failed /* x`, `/* x`, "the comment has no end"},
		{`elapsed > 5d`, `5d`, "5d is neither a number nor a duration such as 1ms"},
		{`elapsed > 1e3ms`, `1e3ms`, "1e3ms is neither a number nor a duration"},
		{`elapsed > 0.5ns`, `0.5ns`, "0.5ns is not a whole number of nanoseconds"},
		{`elapsed > 9999999h`, `9999999h`, "the duration 9999999h is too long"},
		{`path == 1ms`, `==`, "mismatched types: path is of type string, and 1ms of type time.Duration"},
		{`elapsed > 10`, `10`, "elapsed is a duration, but 10 has no unit: give 10ns for nanoseconds, or 10ms for milliseconds"},
		{`1e6 <= elapsed/2`, `1e6`, "elapsed/2 is a duration, but 1e6 has no unit: give 1000000ns for nanoseconds, or 1000000ms for milliseconds"},
		{`elapsed == -2`, `-2`, "give -2ns"},
		{`elapsed < 0.5`, `0.5`, "give 0.5s for seconds, or 0.5ms for milliseconds"},
		{`elapsed - 5*2 > 1s`, `5*2`, "but 5*2 has no unit: give 10ns"},
		{`1 + elapsed > 1s`, `1 +`, "but 1 has no unit: give 1ns"},
		{`1ms == 1`, `1`, "1ms is a duration"},
		{`small.1s == 1`, `.1`, "an operator such as == or && is missing before .1"},
		{`1ms(path)`, `1ms`, "undefined function: 1ms"},
		{`1ms.x == 1`, `1ms`, "undefined: 1ms.x"},
		{"//line x:1\npth == 1", "//line", "an expression cannot have a comment"},
		{"failed /* x */ || failed", "/* x */", "an expression cannot have a comment"},
		{strings.Repeat("(", MaxDepth+2) + "failed" + strings.Repeat(")", MaxDepth+2), "(failed", "nested"},
		{strings.Repeat("!", MaxDepth+1) + "failed", "failed", "nested"},
		{strings.Repeat("failed||", MaxDepth+1) + "failed", "failed", "nested"},
		{strings.Repeat(" ", MaxSource) + "failed", "failed", "the expression has 4102 bytes, but at most 4096 are allowed"},
		{strings.Repeat("(", MaxSource), "", ""},
	} {
		_, err := ParseFilter(c.src, w.vars)
		var e *Error
		require.True(t, errors.As(err, &e), c.src)
		require.Contains(t, e.Msg, c.msg, c.src)
		require.True(t, strings.HasPrefix(c.src[e.Pos:], c.at), "%s: at %q, want %q", c.src, c.src[e.Pos:], c.at)
		require.Contains(t, err.Error(), e.Msg)
	}
}

// TestSyntax: what needs neither names nor types is found without them.
func TestSyntax(t *testing.T) {
	for _, c := range []struct{ src, at, msg string }{
		{`status = 500`, `= 500`, "= assigns, which is not possible here: use == to compare"},
		{``, ``, "empty"},
		{`a & &b`, `&b`, "the operator & is not supported"},
		{`len(a, b)`, `)`, "len takes one argument, not 2"},
		{`a + exit(1)`, `exit`, "undefined function: exit"},
		{`time.Year`, `time`, "undefined: time.Year"},
		{`path[n] == 'a'`, `path`, "undefined: path[n]"},
		{`[]int{1} == 1`, `[`, "filters consist of"},
		{`a == 1i`, `1i`, "complex numbers"},
		{strings.Repeat("!", MaxDepth+1) + "failed", "failed", "nested"},
	} {
		err := Syntax(c.src)
		var e *Error
		require.True(t, errors.As(err, &e), c.src)
		require.Contains(t, e.Msg, c.msg, c.src)
		require.True(t, strings.HasPrefix(c.src[e.Pos:], c.at), "%s: at %q", c.src, c.src[e.Pos:])
	}
	require.NoError(t, Syntax(`-a/len(b) > 10*time.Second && str(c) != "" && strings.HasPrefix(d, "/")`, "str"))
	require.Error(t, Syntax(`str(c)`))
}

func TestErrorShowsThePlace(t *testing.T) {
	for _, c := range []struct {
		e    Error
		want string
	}{
		{Error{Src: "a && pth", Pos: 5, Msg: "undefined: pth"}, "undefined: pth (byte 5)\n\ta && pth\n\t     ^"},
		{Error{Src: "日本 == \"x\" ||", Pos: 16, Msg: "m"}, "m (byte 16)\n\t日本 == \"x\" ||\n\t            ^"},
		{Error{Src: "a ||\n\tb + c ||\nd", Pos: 8, Msg: "m"}, "m (byte 8)\n\t b + c ||\n\t   ^"},
		{Error{Src: "a\x1b[31m\xff ==", Pos: 9, Msg: "m"}, "m (byte 9)\n\ta.[31m. ==\n\t         ^"},
		{Error{Src: "", Pos: 0, Msg: "m"}, "m (byte 0)\n\t\n\t^"},
		{Error{Src: "ab", Pos: 99, Msg: "m"}, "m (byte 2)\n\tab\n\t  ^"},
	} {
		require.Equal(t, c.want, c.e.Error())
	}
}

// TestNearer: an error that suggests a name says more than one that does not, and one about a name that exists most of all.
func TestNearer(t *testing.T) {
	vars := func(name string) []Var { return []Var{{Name: name, Type: Type{Kind: Int, Size: 8}}} }
	_, far := Parse("statu > 1", vars("path"))
	_, near := Parse("statu > 1", vars("status"))
	require.ErrorContains(t, Nearer(far, near), "the nearest name is status")
	require.Equal(t, near, Nearer(near, far))
	require.Equal(t, far, Nearer(far, nil))
	_, known := Parse("statu == true", vars("statu"))
	require.Equal(t, known, Nearer(near, known))
	require.Equal(t, known, Nearer(known, near))
	require.Equal(t, "m (here) (byte 0)\n\tab\n\t^", With(fmt.Errorf("p:n: %w", &Error{Src: "ab", Msg: "m"}), "here").Error())
}

// TestValues: an expression may have any type.
func TestValues(t *testing.T) {
	w := shopWorld()
	for src, want := range map[string]Type{
		"status":                    {Kind: Int, Size: 4},
		"status + 1":                {Kind: Int, Size: 4},
		"status + zero":             {Kind: Int, Size: 8},
		"small + bytes":             {Kind: Uint, Size: 8},
		"small + tiny":              {Kind: Int, Size: 8},
		"status * load":             {Kind: Float, Size: 8},
		"single * 2":                {Kind: Float, Size: 4},
		"elapsed":                   {Kind: Int, Size: 8, Unit: kind.Nanoseconds},
		"elapsed / 2":               {Kind: Int, Size: 8, Unit: kind.Nanoseconds},
		"elapsed / time.Second":     {Kind: Int, Size: 8},
		"elapsed / elapsed":         {Kind: Int, Size: 8},
		"elapsed * load":            {Kind: Float, Size: 8},
		"path":                      {Kind: String},
		"len(path)":                 {Kind: Int, Size: 8},
		"status >= 500":             {Kind: Bool, Size: 1},
		"1.5":                       {Kind: Float, Size: 8},
		"1 << status":               {Kind: Int, Size: 8},
		`"x"`:                       {Kind: String},
		"time.Second * len(\"ab\")": {Kind: Int, Size: 8, Unit: kind.Nanoseconds},
	} {
		e, err := Parse(src, w.vars)
		require.NoError(t, err, src)
		require.Equal(t, want, e.Type(), src)
		_, fault := e.Eval(w.get)
		require.False(t, fault)
	}
	e, err := Parse("status / 100", w.vars)
	require.NoError(t, err)
	v, _ := e.Eval(w.get)
	require.EqualValues(t, 5, v.Int())
	match, fault := e.Bool(w.get)
	require.False(t, match || fault)
}

// TestNames: an argument's name hides Go's names, and the first of a name applies.
func TestNames(t *testing.T) {
	vars := []Var{
		{Name: "true", Type: Type{Kind: Int, Size: 8}}, {Name: "len", Type: Type{Kind: String}},
		{Name: "x", Type: Type{Kind: Bool}}, {Name: "x", Type: Type{Kind: String}},
	}
	e, err := Parse("true == 7 && len(len) == 3 && x", vars)
	require.NoError(t, err)
	match, _ := e.Bool(func(i int) Value { return []Value{IntValue(7), StringValue("abc"), BoolValue(true)}[i] })
	require.True(t, match)
}

func TestEvaluationAllocatesNothing(t *testing.T) {
	w := shopWorld()
	e, err := ParseFilter(`(status >= 400 || failed) && elapsed > 10*time.Millisecond && strings.HasPrefix(path, "/api/") && load*2 > 1 && bytes > tiny && status/zero != 3`, w.vars)
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		values := w.values // captured, as an event is
		e.Bool(func(i int) Value { return values[i] })
	}))
}

// FuzzParse: no expression crashes the parser, and every one that is accepted can be
// evaluated. An error points into the source.
func FuzzParse(f *testing.F) {
	for _, src := range []string{
		`status >= 500 && strings.HasPrefix(path, "/api/")`, `elapsed > 10*time.Millisecond`, `1<<status == zero`, `load/0 > nan`, "'a' + 1.5e3 == 0x1p-2",
		`!failed || len(path)%3 == 0 && small&^7 != bytes`, `func(){}()`, "//line :1\n`x`", `-(-128) == tiny`, `1e1000/1e-1000 < 1`,
	} {
		f.Add(src)
	}
	w := shopWorld()
	f.Fuzz(func(t *testing.T, src string) {
		e, err := Parse(src, w.vars)
		var bad *Error
		switch {
		case err == nil:
			if err := Syntax(src); err != nil {
				t.Fatalf("%q: %v", src, err)
			}
			e.Eval(w.get)
			e.Bool(w.get)
		case !errors.As(err, &bad):
			t.Fatalf("%q: %v", src, err)
		case bad.Pos < 0 || bad.Pos > len(src) || bad.Msg == "" || bad.Error() == "":
			t.Fatalf("%q: %+v", src, bad)
		}
	})
}

// TestParts: a part of a value is a variable whose name has dots, and hides neither package time nor strings.
func TestParts(t *testing.T) {
	w := &world{}
	w.add("req.Size", Type{Kind: Int, Size: 8}, IntValue(7))
	w.add("req.Next.Name", Type{Kind: String}, StringValue("x"))
	w.add("time.Second", Type{Kind: Int, Size: 8}, IntValue(1))
	e, err := ParseFilter(`req.Size == 7 && req . Next . Name == "x" && time.Second == 1000000000ns`, w.vars)
	require.NoError(t, err)
	v, fault := e.Eval(w.get)
	require.False(t, fault)
	require.True(t, v.Bool())
	w.add("n", Type{Kind: Int, Size: 8}, IntValue(1))
	for src, message := range map[string]string{
		"req.Nope": "undefined: req.Nope; the names are req.Size, req.Next.Name",
		"n.Nope":   "undefined: n.Nope; no part of n is known here",
		"x.Nope":   "undefined: x.Nope; the names are req.Size, req.Next.Name, time.Second, n",
	} {
		_, err = Parse(src, w.vars)
		require.Error(t, err)
		require.Contains(t, err.Error(), message+" (byte 0)")
	}
	require.NoError(t, Syntax("req.Size > 3"))
	require.Error(t, Syntax("time.Size > 3"))
}

// TestIndexes: an element of an array is a variable whose name has its index, and so are its parts.
func TestIndexes(t *testing.T) {
	w := &world{}
	w.add("a[0]", Type{Kind: String}, StringValue("one"))
	w.add("b[0].A[0]", Type{Kind: Int, Size: 8}, IntValue(3))
	w.add("len(b[0].L)", Type{Kind: Int, Size: 8}, IntValue(4))
	const filter = `a[0] == "one" && len(a[0]) == 3 && b[ 0 ].A[0] == 3 && len(b[0].L) == 4`
	require.NoError(t, Syntax(filter))
	e, err := ParseFilter(filter, w.vars)
	require.NoError(t, err)
	v, fault := e.Eval(w.get)
	require.False(t, fault)
	require.True(t, v.Bool())
	for src, message := range map[string]string{
		"a[1]":      "undefined: a[1]; the nearest name is a[0]",
		"a":         "undefined: a; the names are a[0], b[0].A[0]",
		"a[n]":      "undefined: a[n]; the names are a[0], b[0].A[0]",
		"b[0].Nope": "undefined: b[0].Nope; the names are a[0], b[0].A[0]",
		"b[0].L":    "undefined: b[0].L; there is len(b[0].L)",
		`"x"[0]`:    `undefined: "x"[0]; the names are`,
	} {
		_, err = Parse(src, w.vars)
		require.ErrorContains(t, err, message)
	}
}

// TestAddress: what is computed from an address is a number.
func TestAddress(t *testing.T) {
	address := Type{Kind: Uint, Size: 8, Unit: kind.Address}
	vars := []Var{{Name: "p", Type: address}}
	for src, want := range map[string]Type{
		"p": address, "+p": address, "(p)": address, "p + 1": {Kind: Uint, Size: 8}, "p - p": {Kind: Uint, Size: 8},
		"p & 7": {Kind: Uint, Size: 8}, "p >> 12": {Kind: Uint, Size: 8}, "p << 1": {Kind: Uint, Size: 8}, "^p": {Kind: Uint, Size: 8},
		"p / p": {Kind: Uint, Size: 8}, "p == 0": {Kind: Bool},
	} {
		e, err := Parse(src, vars)
		require.NoError(t, err, src)
		require.Equal(t, want.Kind, e.Type().Kind, src)
		require.Equal(t, want.Unit, e.Type().Unit, src)
	}
}

// TestTimes: times are compared with times, and have differences.
func TestTimes(t *testing.T) {
	w := shopWorld()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	moment := Type{Kind: Int, Size: 8, Unit: kind.Moment}
	w.add("began", moment, IntValue(at.UnixNano()))
	w.add("ended", moment, IntValue(at.Add(2*time.Second).UnixNano()))
	w.add("never", moment, IntValue(math.MinInt64))
	for src, want := range map[string]bool{
		`began == "2026-01-02T03:04:05Z"`:                 true,
		`began == "2026-01-02T04:04:05+01:00"`:            true,
		`"2026-01-02T03:04:05.5Z" < began`:                false,
		`ended > began && never < began`:                  true,
		`ended - began == 2s`:                             true,
		`ended - 2s == began && 2s + began == ended`:      true,
		`ended - "2026-01-02T03:04:06Z" == 1s`:            true,
		`"2026-01-02T03:04:06Z" - began == 1s`:            true,
		`began == 1767323045000000000`:                    true,
		`began > big && +began == began`:                  true,
		`ended - began > elapsed`:                         true,
		`never == "0001-01-01T00:00:00Z"`:                 true,
		`(ended - began) / 1s == 2 && began + 1h > ended`: true,
	} {
		e, err := ParseFilter(src, w.vars)
		require.NoError(t, err)
		got, fault := e.Bool(w.get)
		require.False(t, fault, src)
		require.Equal(t, want, got, src)
	}
	w.add("late", moment, IntValue(math.MaxInt64))
	for _, src := range []string{
		`ended - never > 1s`, `never - began < 0`, `never + 1h > began`, `late - 1h > began`, `late - began > 1s`, `1h + never < began`,
		`began - "0001-01-01T00:00:00Z" > 0`,
	} {
		e, err := ParseFilter(src, w.vars)
		require.NoError(t, err)
		match, fault := e.Bool(w.get)
		require.False(t, match, src)
		require.True(t, fault, src)
	}
	for src, want := range map[string]Type{
		"ended - began": durationType, "began + 1s": moment, "1s + began": moment, "began - elapsed": moment, "began": moment,
	} {
		e, err := Parse(src, w.vars)
		require.NoError(t, err)
		require.Equal(t, want, e.Type(), src)
		_, err = ParseInteger(src, w.vars, "a sum")
		require.Equal(t, want == durationType, err == nil, src)
	}
	for src, message := range map[string]string{
		`began == "yesterday"`:                `"yesterday" (untyped string) is not in the notation of "2006-01-02T15:04:05Z", and no time.Time (byte 9)`,
		`began + ended == 0`:                  "the operator + is not defined here: times have a difference, and a duration can be added or subtracted (byte 6)",
		`began - 5 == 0`:                      "the operator - is not defined here",
		`5 + began == 0`:                      "the operator + is not defined here",
		`1s - began == 0`:                     "the operator - is not defined here",
		`began * 2 == 0`:                      "the operator * is not defined here",
		`began % 2 == 0`:                      "the operator % is not defined here",
		`began / 1s == 0`:                     "the operator / is not defined here",
		`began + "2026-01-02T03:04:05Z" == 0`: "the operator + is not defined here",
		`-began < 0`:                          "the operator - is not defined for began (time.Time)",
		`^began < 0`:                          "the operator ^ is not defined for began (time.Time)",
		`began << 1 == 0`:                     "the operator << is not defined for began (time.Time)",
		`began == 1s`:                         "mismatched types",
		`elapsed < began`:                     "mismatched types",
		`began == path`:                       "mismatched types",
		`began == true`:                       "mismatched types",
		`began`:                               "the filter is of type time.Time",
	} {
		_, err := ParseFilter(src, w.vars)
		require.ErrorContains(t, err, message, src)
	}
	_, err := ParseNumber("began", w.vars, "a histogram")
	require.ErrorContains(t, err, "a histogram takes numbers, but this is a time.Time")
}

// TestNamedConstants: a name of a constant is like a literal, and a variable hides it.
func TestNamedConstants(t *testing.T) {
	five, minus, large := UintValue(5), IntValue(-1), UintValue(1<<64-1)
	vars := []Var{
		{Name: "r", Type: Type{Kind: Int, Size: 1}}, {Name: "u", Type: Type{Kind: Uint, Size: 8}},
		{Name: "r", Type: Type{Kind: Int, Size: 1}, Constant: &five},
		{Name: "Five", Type: Type{Kind: Uint, Size: 8}, Constant: &five},
		{Name: "Minus", Type: Type{Kind: Int, Size: 1}, Constant: &minus},
		{Name: "Large", Type: Type{Kind: Uint, Size: 8}, Constant: &large},
		{Name: "d", Type: durationType},
	}
	values := []Value{IntValue(-1), UintValue(1<<64 - 1), 6: IntValue(6)}
	for _, src := range []string{"d > Five && d - Five == 1ns", "r == Minus", "u == Large", "r + Five == 4", "r < Five", "u - Large == 0", "Five == 5"} {
		e, err := ParseFilter(src, vars)
		require.NoError(t, err, src)
		got, fault := e.Eval(func(i int) Value { return values[i] })
		require.False(t, fault, src)
		require.True(t, got.Bool(), src)
	}
	for src, want := range map[string]string{
		"r == Large": "overflows int8", "u + Minus > 0": "overflows uint64", "u == Minos": "nearest", "len(Five) > 0": "string",
	} {
		_, err := ParseFilter(src, vars)
		require.ErrorContains(t, err, want, src)
	}
}
