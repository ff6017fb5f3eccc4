package dlang

import (
	"errors"
	"fmt"
	"go/format"
	goparser "go/parser"
	gotoken "go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// definitions matches what is defined in a generated file.
var definitions = regexp.MustCompile(`(?m)^var (\w+) = (stapsdt\..*)$`)

// TestPrograms: the probes of programs that have them, with their names and the order of
// their arguments. What is generated compiles.
func TestPrograms(t *testing.T) {
	for file, want := range map[string][]string{
		"postgresql.d": {
			`TransactionStart = NewProbe1[uint32]("transaction__start")`,
			`LockWaitStart = NewProbe6[uint32, uint32, uint32, uint32, uint32, int32]("lock__wait__start")`,
			`QueryStart = NewProbe1[string]("query__start")`,
			`SortStart = NewProbe6[int32, bool, int32, int32, bool, int32]("sort__start")`,
			`SortDone = NewProbe2[bool, int]("sort__done")`,
			`BufferReadStart = NewProbe6[int32, uint32, uint32, uint32, uint32, int32]("buffer__read__start")`,
			`BufferReadDone = NewProbeOf[BufferReadDoneArgs]("buffer__read__done")`,
			`BufferCheckpointSyncStart = NewProbe0("buffer__checkpoint__sync__start")`,
		},
		"node.d": {
			`NetServerConnection = NewProbe4[unsafe.Pointer, string, int32, int32]("net__server__connection", "c", "a", "p", "fd")`,
			`HttpServerRequest = NewProbeOf[HttpServerRequestArgs]("http__server__request")`,
			`GcStart = NewProbe3[int32, int32, unsafe.Pointer]("gc__start", "t", "f", "isolate")`,
		},
		"php.d": {
			`RequestStartup = NewProbe3[string, string, string]("request__startup", "request_file", "request_uri", "request_method")`,
			`FunctionEntry = NewProbe5[string, string, int32, string, string]("function__entry", "function_name", "request_file", "lineno", "classname", "scope")`,
			`ExceptionCaught = NewProbe1[string]("exception__caught", "classname")`,
		},
		"perl.d":   {`SubEntry = NewProbe4[string, string, int32, string]("sub__entry")`, `PhaseChange = NewProbe2[string, string]("phase__change")`},
		"python.d": {`FunctionEntry = NewProbe3[string, string, int32]("function__entry")`, `GcDone = NewProbe1[int]("gc__done")`},
		"ruby.d": {
			`MethodEntry = NewProbe4[string, string, string, int32]("method__entry", "classname", "methodname", "filename", "lineno")`,
			`ArrayCreate = NewProbe3[int, string, int32]("array__create", "length", "filename", "lineno")`,
			`GcMarkBegin = NewProbe0("gc__mark__begin")`,
		},
	} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		require.NoError(t, err)
		code := generate(t, file, string(text))
		name := strings.TrimSuffix(file, ".d")
		provider := strings.ToUpper(name[:1]) + name[1:] + "Provider"
		assert.Contains(t, code, fmt.Sprintf("var %s = stapsdt.NewProvider(%q)\n", provider, name), file)
		var got []string
		for _, m := range definitions.FindAllStringSubmatch(code, -1) {
			got = append(got, m[1]+" = "+strings.Replace(strings.TrimPrefix(m[2], "stapsdt."), provider+", ", "", 1))
		}
		for _, w := range want {
			assert.Contains(t, got, w, file)
		}
		path := filepath.Join(t.TempDir(), "generated.go")
		require.NoError(t, os.WriteFile(path, []byte(code), 0o600))
		out, err := exec.Command("go", "vet", path).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// generate returns what is generated, which must be formatted.
func generate(t *testing.T, file, text string) string {
	t.Helper()
	code, err := Generate(file, text, "probes")
	require.NoError(t, err)
	again, err := format.Source(code)
	assert.NoError(t, err, "not formatted")
	assert.Equal(t, string(code), string(again), "not formatted")
	return string(code)
}

// TestTypes: what a type of C or D is in Go.
func TestTypes(t *testing.T) {
	for goType, types := range map[string]string{
		"string":  "string|char *|const char *|char const*|char * const|const volatile char*|char[]|char name[16]|caddr_t|text_t",
		"int8":    "char|signed char|int8_t|const char",
		"uint8":   "unsigned char|uint8_t|u_char|uchar_t",
		"int16":   "short|short int|signed short|int16_t",
		"uint16":  "unsigned short|short unsigned int|uint16_t",
		"int32":   "int|signed|signed int|int32_t|pid_t|enum mode|enum { A, B } e|mode_e|boolean_t",
		"uint32":  "unsigned|unsigned int|uint32_t|uint_t|uid_t|mode_t|oid_t",
		"int64":   "long long|long long int|int64_t|hrtime_t|signed long long",
		"uint64":  "unsigned long long|long long unsigned int|uint64_t|dev_t",
		"int":     "long|long int|signed long|ssize_t|off_t|time_t",
		"uint":    "unsigned long|size_t|ulong_t",
		"uintptr": "uintptr_t",
		"bool":    "bool|_Bool",
		"float32": "float",
		"float64": "double",
		"unsafe.Pointer": "void *|int *|struct conn *|struct conn { int fd; } *|conn_t *|unknown_t *|char **|unsigned char *|int[4]|" +
			"int (*)(int, char *)|void (*f)(void)|string *|int f(int)|conn_p",
	} {
		for c := range strings.SplitSeq(types, "|") {
			const defined = "typedef struct conn { int fd; char *name; } conn_t, *conn_p; typedef char *text_t;\n" +
				"enum mode { OFF, ON = 2 }; typedef enum mode mode_e; struct later; typedef unsigned int oid_t;\n"
			providers, err := Parse("a.d", defined+"provider a { probe b("+c+"); };")
			if assert.NoError(t, err, c) {
				assert.Equal(t, goType, providers[0].Probes[0].Args[0].Type, c)
			}
		}
	}
}

// TestGenerated: a whole file.
func TestGenerated(t *testing.T) {
	got := generate(t, "dir/shop.d", `#!/usr/sbin/dtrace -s
#pragma D attributes Evolving/Evolving/Common provider shop provider // it isn't "needed
# define ID unsigned \
	long /* that
	ends here */
inline int limit = 3; // skipped
translator info < conn * c > { id = c->id; };
provider shop { // one
	probe request__done(string path, int /* HTTP's */ status);
	probe request__start(ID, const char *path, struct conn *);
	probe idle(void); probe beat();
};
provider cart { probe idle(); };
`)
	want := `// Code generated by stapsdt generate from shop.d. DO NOT EDIT.

package probes

import (
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
)

// ShopProvider is the provider shop.
var ShopProvider = stapsdt.NewProvider("shop")

// ShopRequestDone is the probe shop:request__done(string path, int status).
var ShopRequestDone = stapsdt.NewProbe2[string, int32](ShopProvider, "request__done", "path", "status")

// ShopRequestStart is the probe shop:request__start(unsigned long, const char *path, struct conn *).
var ShopRequestStart = stapsdt.NewProbe3[uint, string, unsafe.Pointer](ShopProvider, "request__start", "arg0", "path", "arg2")

// ShopIdle is the probe shop:idle().
var ShopIdle = stapsdt.NewProbe0(ShopProvider, "idle")

// ShopBeat is the probe shop:beat().
var ShopBeat = stapsdt.NewProbe0(ShopProvider, "beat")

// CartProvider is the provider cart.
var CartProvider = stapsdt.NewProvider("cart")

// CartIdle is the probe cart:idle().
var CartIdle = stapsdt.NewProbe0(CartProvider, "idle")
`
	assert.Equal(t, want, got)
}

// TestErrors: each error is at its place.
func TestErrors(t *testing.T) {
	in := func(probes string) string { return "provider p {\n" + probes + "\n};\n" }
	for _, c := range []struct{ text, want string }{
		{"", "a.d:1:1: no provider is defined here"},
		{in("probe x(struct foo f);"), "a.d:2:9: probe x: a struct cannot be an argument by value: use a pointer"},
		{in("probe x(int a,\n  union u u);"), "a.d:3:3: probe x: a union cannot be"},
		{"typedef struct { int a; } t;\n" + in("probe x(t a);"), "a.d:3:9: probe x: a struct cannot be"},
		{in("probe x(foo_t a);"), "a.d:2:9: probe x: the type foo_t is not known"},
		{in("probe x(int a, ...);"), "a.d:2:16: probe x takes any number of arguments"},
		{in("probe x(long double a);"), "a.d:2:9: probe x: no tracer can read a long double"},
		{in("probe x(void a);"), "a.d:2:9: probe x: void is not a type"},
		{in("probe x(int, void);"), "a.d:2:14: void is not a type of an argument"},
		{in("probe x(short long a);"), "a.d:2:9: short long is not a type"},
		{in("probe x(int string);"), "a.d:2:9: int string is not a type"},
		{"# 5 \"b\\nvar injected = 1\"\n{", "a.d:5:1: { does not begin a definition"},
		{in("probe x(int,int,int,int,int,int,int,int,int,int,int,int,\nint);"), "a.d:3:1: probe x: too many arguments"},
		{in("probe x(int,int,int,int,int,int a_b,int aB);"), "a.d:2:41: aB would have the name AB in Go, which the definition at a.d:2:33 has already"},
		{in("probe x(int a, int a);"), `a.d:2:20: probe x: invalid name: the name "a" of argument 1 occurs twice`},
		{in("probe x(int unroll);"), `a.d:2:13: probe x: invalid name: the name "unroll" of argument 0 is reserved`},
		{in("probe x(int a" + strings.Repeat("a", 32) + ");"), "a.d:2:13: probe x: invalid name"},
		{in("probe x();\nprobe x();"), "a.d:3:7: probe x is defined twice, first at a.d:2:7"},
		{in("probe x_y();\nprobe x__y();"), "a.d:3:7: x__y would have the name XY in Go, which the definition at a.d:2:7 has already"},
		{in("probe p__provider();"), "a.d:2:7: p__provider would have the name PProvider in Go"},
		{in("probe __();"), `a.d:2:7: __ has no name in Go: it would be ""`},
		{in("probe _1();"), `a.d:2:7: _1 has no name in Go: it would be "1"`},
		{in("probe 1x();"), "a.d:2:7: 1x is not a valid name of a probe"},
		{in("probe x-y();"), "a.d:2:8: ( of the arguments of probe x is missing before -"},
		{in("probe x() : (int a);"), `a.d:2:18: probe x passes no argument "a" that could be translated`},
		{in("probe x(int a)"), "a.d:3:1: ; after probe x is missing before }"},
		{in("probe x(int a;"), "a.d:2:14: , between the arguments of probe x is missing before ;"},
		{in("probe x(*a);"), "a.d:2:9: a type is missing before *"},
		{in("int x;"), "a.d:2:1: int is neither a probe of provider p nor its closing brace"},
		{"provider p {\n};\nprovider p {\n};", "a.d:3:10: provider p is defined twice, first at a.d:1:10"},
		{"provider p { }", "a.d:1:15: ; after provider p is missing before the end of the file"},
		{"provider p {\n probe x(", "a.d:2:10:"},
		{"BEGIN { exit(0); }", "a.d:1:1: BEGIN does not begin a definition"},
		{"syscall:::entry { }", "a.d:1:1: syscall does not begin a definition"},
		{"{", "a.d:1:1: { does not begin a definition"},
		{"struct x {", "a.d:1:10: { has no end"},
		{"translator x {", "a.d:1:14: { has no end"},
		{"inline int x = 1", "a.d:1:1: inline has no end"},
		{"/* x", "a.d:1:1: the comment has no end"},
		{"typedef int x = 'a", "a.d:1:17: the quote has no end on its line"},
		{"provider pé { };", "a.d:1:11: the byte 0xc3 cannot be part of a name"},
		{"\n#include <x.h>", "a.d:2:1: #include needs the C preprocessor: cpp FILE.d |"},
		{"#ifdef X", "a.d:1:1: #ifdef needs the C preprocessor"},
		{"#define f(x) x", "a.d:1:9: the macro f has parameters"},
		{"#define", "a.d:1:2: #define takes a name"},
		{"#define a b b b b b b b b b b\n#define b c c c c c c c c c c\n#define c d d d d d d d d d d d\na", "a.d:4:1: the macro a becomes more than 1000 words"},
		{"#define a b b b b b b b b b b b\n#define b c c c c c c c c c c c\n#define c d d d d d d d d d d\n#define d\na", "a.d:5:1: the macro a becomes more than 1000 words"},
		{"# 7 \"of/b.d\"\nprovider", "of/b.d:7:9: the end of the file is not a valid name of a provider"},
		{"#line 9\n\n}", "a.d:10:1: } does not begin a definition"},
	} {
		code, err := Generate("a.d", c.text, "probes")
		var wrong Errors
		if assert.ErrorAs(t, err, &wrong, "%q\n%s", c.text, code) {
			assert.True(t, strings.HasPrefix(wrong.Error(), c.want), "%q:\ngot  %v\nwant %s", c.text, err, c.want)
		}
	}
}

// TestEveryError: one error does not hide the others of the same kind.
func TestEveryError(t *testing.T) {
	_, err := Generate("a.d", "provider p {\nprobe x(foo a, ...);\nprobe y(struct s);\n};", "probes")
	var wrong Errors
	if assert.ErrorAs(t, err, &wrong) {
		assert.Len(t, wrong, 3)
	}
}

// FuzzGenerate: whatever the file is, it is Go or an error with a place.
func FuzzGenerate(f *testing.F) {
	files, err := filepath.Glob("testdata/*.d")
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(string(text))
	}
	f.Add("#define a b\n# 3 \"x.d\"\nprovider p { probe x(int (*f)(a), char b[\"\xff\"]) : (string b); };")
	f.Fuzz(func(t *testing.T, text string) {
		code, err := Generate("a.d", text, "probes")
		var wrong Errors
		switch {
		case err == nil:
			_, err := goparser.ParseFile(gotoken.NewFileSet(), "a.go", code, goparser.AllErrors)
			assert.NoError(t, err, "%s", code)
			formatted, err := format.Source(code)
			assert.NoError(t, err, "not formatted")
			assert.Equal(t, string(code), string(formatted), "not formatted")
		case !errors.As(err, &wrong):
			assert.Fail(t, "an error without a place", "%v", err)
		default:
			for _, e := range wrong {
				assert.GreaterOrEqual(t, e.Pos.Line, 0, e)
				assert.GreaterOrEqual(t, e.Pos.Column, 1, e)
				assert.NotEmpty(t, e.Msg, e)
			}
		}
	})
}
