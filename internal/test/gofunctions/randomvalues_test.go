//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// valueMaker writes programs of random variables of many types, which do the same whenever they run.
type valueMaker struct {
	*rand.Rand
	strings.Builder
	depth, number int
	scopes        [][]typed
	assigned      map[string]bool // the names, with their functions, of variables that are assigned twice, or belong to loops
	function      string
	literals      int
}

type typed struct{ name, kind string }

// kindsOfValues are the types of variables, with the types in Go where they differ.
var kindsOfValues = map[string]string{
	"int": "", "int8": "", "int16": "", "int32": "", "int64": "", "uint8": "", "uint16": "", "uint32": "", "uint64": "",
	"bool": "", "string": "", "float64": "", "any": "", "error": "", "record": "", "pair": "", "padded": "", "large": "", "kind": "",
	"counter": "", "ints": "[]int", "bytes": "[]byte", "pointer": "*record", "names": "map[string]int", "array": "[3]int", "call": "func() int",
}

var sortedKinds = slices.Sorted(maps.Keys(kindsOfValues))

func isInteger(kind string) bool {
	return strings.HasPrefix(kind, "int") && kind != "ints" || strings.HasPrefix(kind, "uint")
}

func (m *valueMaker) line(format string, args ...any) {
	m.WriteString(strings.Repeat("\t", m.depth))
	fmt.Fprintf(m, format+"\n", args...)
}

func (m *valueMaker) one(all ...string) string { return all[m.IntN(len(all))] }

// visible are the variables of a kind, or of all kinds if it is "". An inner variable hides an outer one of its name.
func (m *valueMaker) visible(kind string) (all []typed) {
	seen := map[string]bool{}
	for i := len(m.scopes) - 1; i >= 0; i-- {
		for j := len(m.scopes[i]) - 1; j >= 0; j-- {
			v := m.scopes[i][j]
			if !seen[v.name] && (kind == "" || v.kind == kind) {
				all = append(all, v)
			}
			seen[v.name] = true
		}
	}
	return all
}

// some returns a variable of a kind, or another expression of that kind.
func (m *valueMaker) some(kind, otherwise string) string {
	if all := m.visible(kind); len(all) > 0 && m.IntN(5) > 0 {
		return all[m.IntN(len(all))].name
	}
	return otherwise
}

// integer returns an expression of type int.
func (m *valueMaker) integer() string {
	var all []string
	for _, v := range m.visible("") {
		switch {
		case v.kind == "int":
			all = append(all, v.name)
		case isInteger(v.kind):
			all = append(all, "int("+v.name+")")
		}
	}
	if len(all) == 0 {
		return "7"
	}
	return m.one(all...)
}

// index returns an expression from 0 up to a number, without it.
func (m *valueMaker) index(n int) string { return fmt.Sprintf("uint(%s)%%%d", m.integer(), n) }

func (m *valueMaker) value(kind string) string {
	n, c := m.integer(), 1+m.IntN(9)
	text, pointer := m.some("string", `"text"`), m.some("pointer", "shared")
	e := ""
	switch kind {
	case "bool":
		return m.one(n+"%2 == 0", fmt.Sprintf("%s > %d", n, 10*c), "!"+m.some("bool", "true"))
	case "string":
		return m.one("texts["+m.index(8)+"]", fmt.Sprintf("tail(%s, %s)", text, n), text+" + texts["+m.index(8)+"]")
	case "float64":
		return fmt.Sprintf("float64(%s)/4", n)
	case "any":
		return "anys[" + m.index(8) + "]"
	case "error":
		return "errs[" + m.index(4) + "]"
	case "record":
		return fmt.Sprintf("record{int32(%s), %s, %s, %s}", n, m.some("bool", "true"), text, m.integer())
	case "pair":
		return fmt.Sprintf("pair{%s, %s}", n, m.integer())
	case "padded":
		return fmt.Sprintf("padded{%s, texts[%s]}", m.some("bool", "false"), m.index(8))
	case "large":
		return fmt.Sprintf("makeLarge(int(%s))", m.index(1000))
	case "kind":
		return "kind(" + m.index(3) + ")"
	case "counter":
		return "counter(" + n + ")"
	case "ints":
		return m.one("numbers[:"+m.index(11)+"]", "numbers["+m.index(5)+":]", fmt.Sprintf("append(%s, %s)", m.some("ints", "numbers"), n))
	case "bytes":
		return "[]byte(texts[" + m.index(8) + "])"
	case "pointer":
		return fmt.Sprintf("&record{A: int32(%s), N: %d, S: %s}", n, c, text)
	case "names":
		return fmt.Sprintf(`map[string]int{"a": %s}`, n)
	case "array":
		return fmt.Sprintf("[3]int{%s, %d, %s}", n, c, m.integer())
	case "call":
		return fmt.Sprintf("func() int { return %s + %d }", n, c)
	}
	e = m.one(
		fmt.Sprintf("%s + %d", n, c), fmt.Sprintf("%s * %d", n, c), n+" ^ "+m.integer(), n+" >> 1", "folded("+n+")", "opaque("+n+")",
		fmt.Sprintf("len(%s) + %s", text, n), fmt.Sprintf("sum(%s, %s)", m.some("ints", "numbers"), n),
		fmt.Sprintf("int(%s.A)", pointer), fmt.Sprintf("int(fields(%s))", pointer), n+" - "+m.integer()+"/"+fmt.Sprint(c),
	)
	if kind != "int" {
		return fmt.Sprintf("%s(%s)", kind, e)
	}
	return e
}

// declare declares a variable, which may hide another one.
func (m *valueMaker) declare() {
	kind := m.one(sortedKinds...)
	m.number++
	name, e := fmt.Sprintf("v%d", m.number), m.value(kind)
	if all := m.visible(kind); len(all) > 0 && m.IntN(12) == 0 {
		hidden := all[m.IntN(len(all))].name
		inner := m.scopes[len(m.scopes)-1]
		if len(m.scopes) > 1 && !slices.ContainsFunc(inner, func(v typed) bool { return v.name == hidden }) {
			name = hidden
		}
	}
	if m.IntN(7) == 0 {
		m.line("var %s %s", name, cmp.Or(kindsOfValues[kind], kind))
		m.line("%s = %s", name, e)
	} else {
		m.line("%s := %s", name, e)
	}
	m.add(typed{name, kind})
}

func (m *valueMaker) add(v typed) {
	m.scopes[len(m.scopes)-1] = append(m.scopes[len(m.scopes)-1], v)
}

// assign assigns to a variable, or to a part of it.
func (m *valueMaker) assign() {
	all := slices.DeleteFunc(m.visible(""), func(v typed) bool { return v.name == "k" || v.kind == "call" || strings.HasPrefix(v.name, "i") })
	if len(all) == 0 {
		return
	}
	v := all[m.IntN(len(all))]
	part := m.IntN(2) == 0
	switch {
	case isInteger(v.kind) && part:
		m.line("%s += %s(k)", v.name, v.kind)
	case v.kind == "record" && part:
		m.line("%s.N = %s", v.name, m.integer())
	case v.kind == "array":
		m.line("%s[%s] = %s", v.name, m.index(3), m.integer())
	case v.kind == "pointer" && part:
		m.line("%s.A += int32(k)", v.name)
	case v.kind == "counter" && part:
		m.line("%s.increase()", v.name)
	case v.kind == "names":
		m.line(`%s["b"] = k`, v.name)
	default:
		m.line("%s = %s", v.name, m.value(v.kind))
	}
}

// used returns variables as arguments.
func (m *valueMaker) used(all []typed) string {
	var args []string
	for _, v := range all {
		switch {
		case v.kind == "call":
			args = append(args, v.name+"()")
		case m.IntN(12) == 0 && v.name != "k" && !strings.HasPrefix(v.name, "i"):
			args = append(args, "&"+v.name)
		default:
			args = append(args, v.name)
		}
	}
	return strings.Join(args, ", ")
}

func (m *valueMaker) use() {
	all := m.visible("")
	m.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	m.line("sink += use(k, %s)", m.used(all[:min(len(all), 1+m.IntN(4))]))
}

func (m *valueMaker) block(n int, in ...typed) {
	m.scopes = append(m.scopes, in)
	m.depth++
	for range n {
		m.statement()
	}
	if all := m.scopes[len(m.scopes)-1]; len(all) > 0 {
		m.line("sink += use(k, %s)", m.used(all))
	}
	m.depth--
	m.scopes = m.scopes[:len(m.scopes)-1]
}

func (m *valueMaker) statement() {
	kind := m.IntN(100)
	m.number++
	n, size := m.number, 1+m.IntN(3)
	switch {
	case kind < 40 || len(m.scopes) > 4:
		m.declare()
	case kind < 57:
		m.assign()
	case kind < 67:
		m.use()
	case kind < 77:
		m.line("if %s {", m.value("bool"))
		m.block(size)
		if m.IntN(2) == 0 {
			m.line("} else {")
			m.block(size)
		}
		m.line("}")
	case kind < 83:
		m.line("for i%d := 0; i%d < %d; i%d++ {", n, n, 1+m.IntN(4), n)
		m.block(size, typed{fmt.Sprintf("i%d", n), "int"})
		m.line("}")
	case kind < 88:
		m.line("for j%d, x%d := range %s {", n, n, m.some("ints", "numbers"))
		m.line("\tif j%d > 3 {\n\t\tbreak\n\t}", n)
		m.block(size, typed{fmt.Sprintf("j%d", n), "int"}, typed{fmt.Sprintf("x%d", n), "int"})
		m.line("}")
	case kind < 91:
		m.line("r%d, err%d := two(int(%s))", n, n, m.index(100))
		m.line("if err%d != nil {\n\t\tsink += use(r%d, err%d)\n\t}", n, n, n)
		m.add(typed{fmt.Sprintf("r%d", n), "int"})
		m.add(typed{fmt.Sprintf("err%d", n), "error"})
	case kind < 94:
		m.line("g%d, h%d := chosen(int(%s), texts)", n, n, m.index(100))
		m.add(typed{fmt.Sprintf("g%d", n), "string"})
		m.add(typed{fmt.Sprintf("h%d", n), "int"})
	case kind < 96:
		m.line("switch y%d := anys[%s].(type) {", n, m.index(8))
		m.line("case int:\n\t\tsink += use(k, y%d)\n\tcase string:\n\t\tsink += use(k, y%d, len(y%d))\n\tdefault:\n\t\tsink += use(k, y%d)\n\t}", n, n, n, n)
	case kind < 97:
		m.line("sink += grow(40)")
	default:
		m.literal(n)
	}
}

// literal writes a function literal that captures variables, and a call of it.
func (m *valueMaker) literal(n int) {
	m.line("c%d := func(a%d int) int {", n, n)
	m.scopes = append(m.scopes, []typed{{fmt.Sprintf("a%d", n), "int"}})
	m.depth++
	for range 1 + m.IntN(3) {
		m.declare()
	}
	if m.IntN(2) == 0 {
		m.assign()
	}
	all := m.scopes[len(m.scopes)-1]
	m.line("return use(k, %s)", m.used(all))
	m.depth--
	m.scopes = m.scopes[:len(m.scopes)-1]
	m.line("}")
	m.line("sink += c%d(k + 1)", n)
}

// randomValues returns a program with a number of functions.
func randomValues(seed uint64, functions int) string {
	m := &valueMaker{Rand: rand.New(rand.NewPCG(seed, 80))}
	m.WriteString(valuesHeader)
	for i := range functions {
		m.line("\n//go:noinline\nfunc f%d(k int, s0 string, xs0 []int, e0 error, p0 *record, b0 bool) (result int) {", i)
		m.depth++
		m.scopes = [][]typed{{{"k", "int"}, {"s0", "string"}, {"xs0", "ints"}, {"e0", "error"}, {"p0", "pointer"}, {"b0", "bool"}}}
		for range 6 + m.IntN(9) {
			m.statement()
		}
		m.line("sink += use(k, %s)", m.used(m.scopes[0]))
		m.line("return sink + k")
		m.depth--
		m.line("}")
	}
	m.line("\nfunc all(n int) {\n\tfor k := range n {\n\t\tp := &record{A: int32(k), N: k * 2, S: texts[k%%8]}")
	for i := range functions {
		m.line("\t\tsink += f%d(k, texts[k%%8], numbers[:k%%11], errs[k%%4], p, k%%2 == 0)", i)
	}
	m.line("\t}\n}")
	return m.String()
}

// valuesHeader is what the functions of random programs use. The work is done by a goroutine whose stack grows, while garbage is collected.
const valuesHeader = `package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/pprof"
	"time"
)

type record struct {
	A int32
	B bool
	S string
	N int
}

type pair struct{ X, Y int }

type padded struct {
	Flag bool
	Name string
}

type large struct {
	P [5]int
	Q string
	R uint8
}

type kind uint8

const (
	first kind = iota
	second
	third
)

type counter int

func (c *counter) increase() { *c += 3 }

var (
	texts   = []string{"", "a", "bc", "def", "a word", "another", "some words", "0123456789012345678901234567890"}
	errs    = []error{nil, errors.New("e1"), fmt.Errorf("e2: %w", errors.New("in")), os.ErrNotExist}
	anys    = []any{nil, 1, "x", 2.5, errors.New("e"), []int{1}, pair{1, 2}, &pair{3, 4}}
	numbers = []int{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5}
	shared  = &record{A: 5, S: "shared"}
	sink    int
)

//go:noinline
func use(k int, all ...any) int { return k + len(all) }

//go:noinline
func opaque(k int) int { return k }

//go:noinline
func grow(n int) int {
	var large [200]int
	large[n%200] = n
	if n == 0 {
		return large[0]
	}
	return grow(n-1) + large[n%200]
}

func folded(a int) int {
	b := a*3 + 1
	c := b ^ a
	return c - b
}

func tail(s string, n int) string {
	m := n & 3
	if m < len(s) {
		t := s[m:]
		return t
	}
	return s
}

func sum(all []int, v int) (total int) {
	for _, x := range all {
		y := x + v
		total += y
	}
	return total
}

func fields(p *record) int32 {
	q := p.A
	r := q + int32(p.N)
	return r
}

//go:noinline
func makeLarge(k int) large { return large{P: [5]int{k, k + 1, k + 2}, Q: texts[k%len(texts)], R: uint8(k)} }

//go:noinline
func chosen[E any](k int, all []E) (E, int) {
	i := k % len(all)
	e := all[i]
	n := len(all) - i
	return e, n
}

//go:noinline
func two(k int) (int, error) { return k * 2, errs[k%len(errs)] }

func main() {
	if path := os.Getenv("PROFILE"); path != "" {
		f, err := os.Create(path)
		if err != nil {
			panic(err)
		}
		_ = pprof.StartCPUProfile(f)
		for start := time.Now(); time.Since(start) < time.Second; {
			all(100)
		}
		pprof.StopCPUProfile()
		f.Close()
		return
	}
	debug.SetGCPercent(2)
	in := bufio.NewReader(os.Stdin)
	_, _ = in.ReadString('\n')
	done := make(chan bool)
	go func() {
		all(12)
		done <- true
	}()
	<-done
	fmt.Println("done")
	_, _ = in.ReadString('\n')
}
`
