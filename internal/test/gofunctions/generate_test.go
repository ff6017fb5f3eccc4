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
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"
	"unsafe"
)

type (
	Small   struct{ A int8; B uint16 }
	Mixed   struct{ N int; S string; F float64; OK bool }
	Nested  struct{ M Small; P *Small; L []byte }
	Errs    struct{ E error; I any }
	Empty   struct{}
	Padded  struct{ A bool; _ int32; B bool }
	One     struct{ A [1]int16 }
	Big     struct{ A, B, C, D, E, F, G, H, I, J int }
	Number  int32
	Text    string
	Failure struct{ code int }
	Box[T any] struct{ v T }
)

func (f Failure) Error() string  { return "failed" }
func (n Number) String() string  { return "number" }

var (
	count int
	sink  any
	out   = bufio.NewWriter(os.Stdout)
)

type hidden struct{}

func word[T any](v T) string { return fmt.Sprintf("%#x", *(*uintptr)(unsafe.Pointer(&v))) }

func dynamic(v any) any {
	if v == nil {
		return nil
	}
	return reflect.TypeOf(v).String()
}

func say(probe string, args ...any) {
	m := map[string]any{}
	for i := 0; i < len(args); i += 2 {
		m[args[i].(string)] = args[i+1]
		if _, ok := args[i+1].(hidden); ok {
			m[args[i].(string)] = "<hidden>"
		}
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
	_, _, _, _ = errors.New, strings.Repeat, reflect.TypeOf, time.Second
}
`

// value is an expression of a type, and how main says it under a name.
type value struct {
	typ  string
	expr string
	say  func(name, v string) string
}

func plain(name, v string) string  { return fmt.Sprintf(", %q, %s", name, v) }
func hide(name, v string) string   { return fmt.Sprintf(", %q, hidden{}", name) }
func word(name, v string) string   { return fmt.Sprintf(", %q, word(%s)", name, v) }
func length(name, v string) string { return fmt.Sprintf(", %q, len(%s)", "len("+name+")", v) }
func dynamic(name, v string) string {
	return fmt.Sprintf(", %q, dynamic(%s)", name, v)
}
func nothing(string, string) string { return "" }

// fields says those of a struct.
func fields(all ...func(name, v string) string) func(name, v string) string {
	return func(name, v string) (text string) {
		for _, f := range all {
			text += f(name, v)
		}
		return text
	}
}

func field(name string, say func(name, v string) string) func(name, v string) string {
	return func(parent, v string) string { return say(parent+"."+name, v+"."+name) }
}

func (g *generator) text() string {
	return fmt.Sprintf("%q", []string{"", "x", "hello", `quotes " and \ `, "héllo wörld", strings.Repeat("long ", 8), "a\x00b"}[g.IntN(7)])
}

func (g *generator) integer(bits int) string {
	n := g.Int64() >> (64 - bits)
	if g.IntN(2) == 0 {
		n = -n - 1
	}
	return fmt.Sprint(n)
}

func (g *generator) unsigned(bits int) string { return fmt.Sprint(g.Uint64() >> (64 - bits)) }

// value returns a value of a type at random. Floats that are on the stack are shown, so that only those
// are used of which the place is known.
func (g *generator) value() value {
	small := fields(field("A", plain), field("B", plain))
	smallExpr := func() string { return fmt.Sprintf("Small{%s, %s}", g.integer(8), g.unsigned(16)) }
	errorExpr := []string{"error(nil)", `errors.New("e")`, "error(Failure{3})", "error(&Failure{4})"}[g.IntN(4)]
	anyExpr := []string{"any(nil)", "any(1)", `any("s")`, "any(&count)", "any(Small{})", "any([]int{1})", "any(map[string]int{})", "any(time.Second)"}[g.IntN(8)]
	all := []value{
		{"bool", []string{"true", "false"}[g.IntN(2)], plain},
		{"int", g.integer(64), plain}, {"int8", g.integer(8), plain}, {"int16", g.integer(16), plain}, {"int32", g.integer(32), plain}, {"int64", g.integer(64), plain},
		{"uint", g.unsigned(64), plain}, {"uint8", g.unsigned(8), plain}, {"uint16", g.unsigned(16), plain}, {"uint32", g.unsigned(32), plain}, {"uint64", g.unsigned(64), plain},
		{"uintptr", g.unsigned(64), plain}, {"time.Duration", g.integer(40), plain}, {"Number", g.integer(32), plain},
		{"string", g.text(), plain}, {"Text", g.text(), plain}, {"string", g.text(), plain},
		{"[]int", []string{"nil", "[]int{}", "[]int{1, 2, 3}"}[g.IntN(3)], length}, {"[]string", `[]string{"a"}`, length},
		{"error", errorExpr, dynamic}, {"any", anyExpr, dynamic}, {"fmt.Stringer", "fmt.Stringer(Number(4))", dynamic},
		{"*Small", []string{"nil", "heap(&" + smallExpr() + ")"}[g.IntN(2)], word}, {"*int", "&count", word}, {"unsafe.Pointer", "unsafe.Pointer(&count)", word},
		{"map[string]int", "heap(map[string]int{})", word}, {"chan int", "make(chan int)", word}, {"func()", "func() {}", word},
		{"Small", smallExpr(), small}, {"Empty", "Empty{}", nothing}, {"[0]int", "[0]int{}", nothing},
		{"Mixed", fmt.Sprintf("Mixed{%s, %s, 1.5, true}", g.integer(64), g.text()), fields(field("N", plain), field("S", plain), field("F", hide), field("OK", plain))},
		{"Nested", fmt.Sprintf("Nested{%s, nil, []byte{1, 2}}", smallExpr()), fields(field("M", small), field("P", word), field("L", length))},
		{"Errs", fmt.Sprintf("Errs{%s, %s}", errorExpr, anyExpr), fields(field("E", dynamic), field("I", dynamic))},
		{"Padded", "Padded{A: true, B: false}", fields(field("A", plain), func(name, v string) string { return fmt.Sprintf(", %q, 0", name+"._") }, field("B", plain))},
		{"One", fmt.Sprintf("One{[1]int16{%s}}", g.integer(16)), func(name, v string) string { return plain(name+".A[0]", v+".A[0]") }},
		{"[1]uint32", fmt.Sprintf("[1]uint32{%s}", g.unsigned(32)), func(name, v string) string { return plain(name+"[0]", v+"[0]") }},
		{"[3]int", "[3]int{1, 2, 3}", hide}, {"complex128", "complex(1, 2)", hide},
		{"float64", "2.25", hide}, {"float32", "-3.5", hide},
		{"Big", fmt.Sprintf("Big{A: %s, J: %s}", g.integer(64), g.integer(64)), fields(field("A", plain), field("B", plain), field("C", plain), field("D", plain),
			field("E", plain), field("F", plain), field("G", plain), field("H", plain), field("I", plain), field("J", plain))},
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

// receivers are those of methods: how the method is declared and called, its name in the program, and
// what the command shows of the receiver.
var receivers = []struct{ declared, call, name, value string }{
	{"", "", "", ""},
	{"", "", "", ""},
	{"(t Small) ", "Small{5, 6}.", "Small.", `, "t.A", 5, "t.B", 6`},
	{"(t *Small) ", "(&smallValue).", "(*Small).", `, "t", word(&smallValue)`},
	{"(t Number) ", "Number(-9).", "Number.", `, "t", -9`},
	{"(t *Box[T]) ", "boxValue.", "(*Box[go.shape.int]).", `, "t", word(boxValue)`},
	{"(t Box[T]) ", "Box[string]{\"boxed\"}.", "Box[go.shape.string].", `, "t.v", "boxed"`},
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
	said, receiver := r.value, 0
	if r.declared != "" {
		receiver = 1
	}
	for i := range in {
		said += in[i].say(in[i].shown("arg", i+receiver), in[i].variable)
	}
	fmt.Fprintf(&g.calls, "\n//go:noinline\nfunc call%d() {\n%s\tsay(%q%s)\n\t", i, inSource, probe, said)
	if len(results) > 0 {
		var got []string
		for i := range results {
			got = append(got, fmt.Sprintf("g%d", i))
		}
		fmt.Fprintf(&g.calls, "%s := ", strings.Join(got, ", "))
	}
	fmt.Fprintf(&g.calls, "%s%s%s(%s)\n", r.call, name, argument, list(in, variable))
	said = ""
	for i := range results {
		said += results[i].say(results[i].shown("ret", i), fmt.Sprintf("g%d", i))
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
	return preamble + "\nvar smallValue = Small{7, 8}\nvar boxValue = &Box[int]{9}\n" + g.functions.String() + g.calls.String() +
		"\nfunc calls() {\n" + calls.String() + "}\n"
}
