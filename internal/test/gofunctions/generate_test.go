//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// groups is the number of groups into which the names of functions are divided, because a pattern selects
// only so many.
const groups = 4

// generator writes a program whose functions have signatures at random. Its main calls each of them once,
// and prints before what it passes, and afterwards what it gets.
type generator struct {
	*rand.Rand
	functions, calls strings.Builder
	names            int // of variables
}

// preamble is what the generated programs have in common.
const preamble = `package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/textproto"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"
)

type (
	Octet   uint8
	Octets  []Octet
	Digest  [3]Octet
	Small   struct{ A int8; B uint16 }
	Mixed   struct{ N int; S string; F float64; OK bool }
	Nested  struct{ M Small; P *Small; L []byte }
	Errs    struct{ E error; I any }
	Empty   struct{}
	Padded  struct{ A bool; _ int32; B bool }
	One     struct{ A [1]int16 }
	Big     struct{ A, B, C, D, E, F, G, H, I, J int }
	Mail    struct{ To [4]byte; Body []byte; N int8 }
	Visit   struct{ N int8; At time.Time; M int8 }
	Number  int32
	Text    string
	Failure struct{ code int }
	Box[T any] struct{ v T }
)

// Named is an error that begins with a string, which is not its text.
type Named struct{ name string }

func (n *Named) Error() string { return "named" }

var syntaxError = json.Unmarshal([]byte("{"), new(int))

func (f Failure) Error() string  { return "failed" }
func (n Number) String() string  { return "number" }

var (
	count int
	sink  any
	out   = bufio.NewWriter(os.Stdout)
)

func ptr[T any](v T) *T { return &v }

// text is what the command shows of bytes.
func text(v reflect.Value) string {
	b := make([]byte, v.Len())
	for i := range b {
		b[i] = byte(v.Index(i).Uint())
	}
	if utf8.Valid(b) && !strings.HasPrefix(string(b), "0x") {
		return string(b)
	}
	return "0x" + hex.EncodeToString(b)
}

// errorText is what the command shows of an error after its type.
func errorText(v reflect.Value) string {
	if v.Type() != reflect.TypeFor[error]() || !v.CanInterface() {
		return ""
	}
	err := v.Interface().(error)
	switch v.Elem().Type().String() {
	case "*errors.errorString", "*fmt.wrapError", "*fmt.wrapErrors", "*json.SyntaxError", "textproto.ProtocolError":
		return " " + strconv.Quote(err.Error())
	}
	return ""
}

// tell adds what the command shows of a value: the fields of structs, bytes, the lengths of other slices, the types in interfaces, and addresses.
func tell(m map[string]any, name string, v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() && v.CanInterface() {
		at := v.Interface().(time.Time)
		m[name] = at.UTC().Format(time.RFC3339Nano)
		if s := at.Unix(); !at.IsZero() && (s <= math.MinInt64/1_000_000_000 || s >= math.MaxInt64/1_000_000_000) {
			m[name] = nil
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			tell(m, name+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Array:
		if v.Len() == 1 {
			tell(m, name+"[0]", v.Index(0))
		} else if v.Len() > 1 && v.Type().Elem().Kind() == reflect.Uint8 {
			m[name] = text(v)
		} else if v.Len() > 1 {
			m[name] = "<hidden>"
		}
	case reflect.Slice:
		isBytes := v.Type().Elem().Kind() == reflect.Uint8
		if isBytes {
			m[name] = text(v)
		}
		if !isBytes || fields {
			m["len("+name+")"] = v.Len()
		}
	case reflect.Interface:
		m[name] = "nil"
		if !v.IsNil() {
			m[name] = v.Elem().Type().String() + errorText(v)
		}
	case reflect.Bool:
		m[name] = v.Bool()
	case reflect.String:
		m[name] = v.String()
	case reflect.Complex64, reflect.Complex128, reflect.Float32, reflect.Float64:
		m[name] = "<hidden>"
		if fields && v.CanFloat() {
			m[name] = v.Float()
		}
	default:
		switch {
		case v.CanInt():
			m[name] = v.Int()
		case v.CanUint():
			m[name] = v.Uint()
		default:
			m[name] = fmt.Sprintf("%#x", *(*uintptr)(v.Addr().UnsafePointer()))
		}
	}
}

// say writes what the command shows at a probe. The arguments are names and pointers to values.
func say(probe string, args ...any) {
	m := map[string]any{}
	for i := 0; i < len(args); i += 2 {
		tell(m, args[i].(string), reflect.ValueOf(args[i+1]).Elem())
	}
	line, err := json.Marshal(map[string]any{"probe": probe, "args": m})
	if err != nil {
		panic(err)
	}
	out.Write(append(line, '\n'))
}

// heap keeps what a value points to from moving with the stack.
//go:noinline
func heap[T any](v T) T {
	sink = v
	return v
}

// grow makes the stack of its caller move, with what the caller has passed.
//go:noinline
func grow(n int) int {
	var space [512]byte
	space[n%512] = 1
	if n == 0 {
		return int(space[0])
	}
	return grow(n-1) + int(space[1])
}

func main() {
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n')
	done := make(chan bool)
	go func() { calls(); close(done) }()
	<-done
	out.Flush()
	fmt.Println("done")
	in.ReadString('\n')
	_, _, _, _, _, _ = exec.Command, textproto.TrimString, errors.New, strings.Repeat, unsafe.Pointer(nil), time.Second
}
`

// value is an expression of a type.
type value struct{ typ, expr string }

func (g *generator) text() string {
	return fmt.Sprintf("%q", []string{"", "x", "hello", `quotes " and \ `, "héllo wörld", strings.Repeat("long ", 8), "a\x00b"}[g.IntN(7)])
}

// bytes returns a string of bytes that is text or not.
func (g *generator) bytes() string {
	return []string{`"\xff\x00\x01"`, `"\x00\x01\x00"`, `"0xff"`, `"\xc3"`, `"caf\xc3\xa9"`, g.text()}[g.IntN(6)]
}

// time returns a time, with and without a reading of the monotonic clock.
func (g *generator) time() string {
	return []string{
		"time.Time{}", "time.Now()", "time.Now().Round(0)", fmt.Sprintf("time.Unix(%d, %d)", g.Int64N(1<<33)-1<<32, g.IntN(1e9)),
		"time.Date(1500, 1, 2, 3, 4, 5, 6, time.UTC)", "time.Date(9000, 1, 2, 3, 4, 5, 6, time.UTC)", "time.Time{}.Add(1)", "time.Unix(-1<<63, 5)", "time.Unix(1<<63-1, 5)",
	}[g.IntN(9)]
}

func (g *generator) integer(bits int) string {
	n := g.Int64() >> (64 - bits)
	if g.IntN(2) == 0 {
		n = -n - 1
	}
	return fmt.Sprint(n)
}

func (g *generator) unsigned(bits int) string { return fmt.Sprint(g.Uint64() >> (64 - bits)) }

// value returns a value of a type at random.
func (g *generator) value() value {
	smallExpr := func() string { return fmt.Sprintf("Small{%s, %s}", g.integer(8), g.unsigned(16)) }
	errorExpr := []string{
		"error(nil)", "errors.New(" + g.text() + ")", "error(Failure{3})", "error(&Failure{4})", "error(&Named{\"no text\"})",
		"fmt.Errorf(\"wrapped: %w\", errors.New(" + g.text() + "))", `fmt.Errorf("%w, %w", errors.New("a"), &Failure{1})`, "syntaxError",
		"error(textproto.ProtocolError(" + g.text() + "))", `error(&exec.Error{Name: "no text", Err: errors.New("e")})`,
	}[g.IntN(10)]
	anyExpr := []string{"any(nil)", "any(1)", `any("s")`, "any(&count)", "any(Small{})", "any([]int{1})", "any(map[string]int{})", "any(time.Second)"}[g.IntN(8)]
	all := []value{
		{"bool", []string{"true", "false"}[g.IntN(2)]},
		{"int", g.integer(64)}, {"int8", g.integer(8)}, {"int16", g.integer(16)}, {"int32", g.integer(32)}, {"int64", g.integer(64)},
		{"uint", g.unsigned(64)}, {"uint8", g.unsigned(8)}, {"uint16", g.unsigned(16)}, {"uint32", g.unsigned(32)}, {"uint64", g.unsigned(64)},
		{"time.Time", g.time()}, {"Visit", fmt.Sprintf("Visit{5, %s, 7}", g.time())},
		{"uintptr", g.unsigned(64)}, {"time.Duration", g.integer(40)}, {"Number", g.integer(32)},
		{"string", g.text()}, {"Text", g.text()}, {"string", g.text()},
		{"[]int", []string{"nil", "[]int{}", "[]int{1, 2, 3}"}[g.IntN(3)]}, {"[]string", `[]string{"a"}`},
		{"[]byte", "[]byte(" + g.bytes() + ")"}, {"[]byte", "nil"}, {"Octets", "Octets(" + g.bytes() + ")"},
		{"[5]byte", []string{`[5]byte{1, 255, 3}`, `[5]byte{'h', 'e', 'l', 'l', 'o'}`}[g.IntN(2)]}, {"Digest", "Digest{'a', 'b', 200}"}, {"[1]byte", "[1]byte{7}"},
		{"Mail", fmt.Sprintf("Mail{[4]byte{'m', 0, 'i'}, []byte(%s), 5}", g.bytes())},
		{"error", errorExpr}, {"any", anyExpr}, {"fmt.Stringer", "fmt.Stringer(Number(4))"},
		{"*Small", []string{"nil", "heap(&" + smallExpr() + ")"}[g.IntN(2)]}, {"*int", "&count"}, {"unsafe.Pointer", "unsafe.Pointer(&count)"},
		{"map[string]int", "heap(map[string]int{})"}, {"chan int", "make(chan int)"}, {"func()", "func() {}"},
		{"Small", smallExpr()}, {"Empty", "Empty{}"}, {"[0]int", "[0]int{}"},
		{"Mixed", fmt.Sprintf("Mixed{%s, %s, 1.5, true}", g.integer(64), g.text())},
		{"Nested", fmt.Sprintf("Nested{%s, nil, []byte{1, 2}}", smallExpr())},
		{"Errs", fmt.Sprintf("Errs{%s, %s}", errorExpr, anyExpr)}, {"Padded", "Padded{A: true, B: false}"},
		{"One", fmt.Sprintf("One{[1]int16{%s}}", g.integer(16))}, {"[1]uint32", fmt.Sprintf("[1]uint32{%s}", g.unsigned(32))},
		{"[3]int", "[3]int{1, 2, 3}"}, {"complex128", "complex(1, 2)"}, {"float64", "2.25"}, {"float32", "-3.5"},
		{"Big", fmt.Sprintf("Big{A: %s, J: %s}", g.integer(64), g.integer(64))},
	}
	return all[g.IntN(len(all))]
}

// parameter is a parameter or a result, and the variable of main that has its value.
type parameter struct {
	value
	name, variable string
}

// parameters declares variables in main with values of types at random, and names parameters for them.
func (g *generator) parameters(prefix string, named bool, blank func() bool) (all []parameter, sources string) {
	for i := range g.IntN(9) {
		p := parameter{value: g.value(), name: fmt.Sprintf("%s%c", prefix, 'a'+i)}
		if !named {
			p.name = ""
		} else if blank() {
			p.name = "_"
		}
		g.names++
		p.variable = fmt.Sprintf("v%d", g.names)
		sources += fmt.Sprintf("\tvar %s %s = %s\n", p.variable, p.typ, p.expr)
		all = append(all, p)
	}
	return all, sources
}

// shown returns the name that the command gives to a parameter.
func (p *parameter) shown(kind string, i int) string {
	if p.name == "" || p.name == "_" {
		return fmt.Sprintf("%s%d", kind, i)
	}
	return p.name
}

func list(all []parameter, part func(p *parameter) string) string {
	var parts []string
	for i := range all {
		parts = append(parts, part(&all[i]))
	}
	return strings.Join(parts, ", ")
}

func declared(p *parameter) string { return strings.TrimSpace(p.name + " " + p.typ) }
func variable(p *parameter) string { return p.variable }

// receivers are those of methods: how the method is declared, the receiver, and its name in the program.
var receivers = []struct{ declared, value, name string }{
	{"", "", ""},
	{"", "", ""},
	{"(t Small) ", "Small{5, 6}", "Small."},
	{"(t *Small) ", "(&smallValue)", "(*Small)."},
	{"(t Number) ", "Number(-9)", "Number."},
	{"(t *Box[T]) ", "boxValue", "(*Box[go.shape.int])."},
	{"(t Box[T]) ", "Box[string]{\"boxed\"}", "Box[go.shape.string]."},
}

// function adds a function and its call.
func (g *generator) function(i int) {
	name := fmt.Sprintf("Q%c%d", 'a'+i%groups, i)
	in, inSource := g.parameters("p", g.IntN(6) > 0, func() bool { return g.IntN(8) == 0 })
	results, _ := g.parameters("r", g.IntN(2) == 0, func() bool { return g.IntN(10) == 0 })
	r := receivers[g.IntN(len(receivers))]
	generic, argument := "", ""
	if r.declared == "" && g.IntN(5) == 0 {
		generic, argument = "[T any]", "[int]"
	}
	fmt.Fprintf(&g.functions, "\n//go:noinline\nfunc %s%s%s(%s) (%s) {\n", r.declared, name, generic, list(in, declared), list(results, declared))
	if g.IntN(3) > 0 { // otherwise it is a leaf
		if g.IntN(2) == 0 {
			for i := range in {
				if in[i].name != "" && in[i].name != "_" && g.IntN(2) == 0 {
					fmt.Fprintf(&g.functions, "\tsink = &%s\n", in[i].name)
				}
			}
		}
		fmt.Fprintf(&g.functions, "\tcount += grow(%d)\n", g.IntN(30))
	}
	fmt.Fprintf(&g.functions, "\treturn %s\n}\n", list(results, func(p *parameter) string { return "res" + p.variable }))
	for _, p := range results { // variables that the function returns
		fmt.Fprintf(&g.functions, "\nvar res%s %s = %s\n", p.variable, p.typ, p.expr)
	}
	probe := "main." + r.name + name
	if generic != "" {
		probe += "[go.shape.int]"
	}
	said, call, receiver := "", name, 0
	if r.declared != "" {
		said, call, receiver = fmt.Sprintf(`, "t", ptr(%s)`, r.value), r.value+"."+name, 1
	}
	for i := range in {
		said += fmt.Sprintf(", %q, &%s", in[i].shown("arg", i+receiver), in[i].variable)
	}
	fmt.Fprintf(&g.calls, "\n//go:noinline\nfunc call%d() {\n%s\tsay(%q%s)\n\t", i, inSource, probe, said)
	if len(results) > 0 {
		var got []string
		for i := range results {
			got = append(got, fmt.Sprintf("g%d", i))
		}
		fmt.Fprintf(&g.calls, "%s := ", strings.Join(got, ", "))
	}
	fmt.Fprintf(&g.calls, "%s%s(%s)\n", call, argument, list(in, variable))
	said = ""
	for i := range results {
		said += fmt.Sprintf(", %q, &g%d", results[i].shown("ret", i), i)
	}
	fmt.Fprintf(&g.calls, "\tsay(%q%s)\n", probe+":return", said)
	for i := range results {
		fmt.Fprintf(&g.calls, "\t_ = g%d\n", i)
	}
	g.calls.WriteString("}\n")
}

// program returns the source of a program with functions.
func program(seed uint64, functions int) string {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1))}
	for i := range functions {
		g.function(i)
	}
	var calls strings.Builder
	for i := range functions {
		fmt.Fprintf(&calls, "\tcall%d()\n", i)
	}
	return preamble + "\nconst fields = false // floats are in registers, which the kernel does not show\nvar smallValue = Small{7, 8}\nvar boxValue = &Box[int]{9}\n" + g.functions.String() + g.calls.String() +
		"\nfunc calls() {\n" + calls.String() + "}\n"
}
