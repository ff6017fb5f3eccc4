//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

// lineMaker writes programs of random statements, which count how often each is executed. The statement with a counter is at the line
// that ends with //@ and its number.
type lineMaker struct {
	*rand.Rand
	strings.Builder
	depth    int
	counters int
	literal  int // how many function literals the statement is in
	loops    int // how many loops of the function
}

func (m *lineMaker) line(format string, args ...any) {
	m.WriteString(strings.Repeat("\t", m.depth))
	fmt.Fprintf(m, format+"\n", args...)
}

// counted writes a statement and, in a line before it, its counter.
func (m *lineMaker) counted(format string, args ...any) {
	n := m.counter()
	m.line("did(%d)", n)
	m.line("%s //@ %d", fmt.Sprintf(format, args...), n)
}

func (m *lineMaker) counter() int {
	m.counters++
	return m.counters
}

func (m *lineMaker) one(words ...string) string { return words[m.IntN(len(words))] }

func (m *lineMaker) variable() string { return m.one("a", "b", "c", "d") }

func (m *lineMaker) value(depth int) string {
	if depth > 2 {
		return m.variable()
	}
	part := func() string { return m.value(depth + 1) }
	switch m.IntN(8) {
	case 0:
		return fmt.Sprint(1 + m.IntN(8))
	case 1:
		return fmt.Sprintf("f(%s)", part())
	case 2:
		return fmt.Sprintf("g(%s, %s)", part(), part())
	case 3:
		return fmt.Sprintf("(%s + %s)", part(), part())
	case 4:
		return fmt.Sprintf("small(%s)", part())
	case 5:
		return fmt.Sprintf("(%s ^ %s)", m.variable(), part())
	case 6:
		return fmt.Sprintf("all[%s&7]", part())
	}
	return m.variable()
}

func (m *lineMaker) condition() string {
	switch m.IntN(4) {
	case 0:
		return fmt.Sprintf("%s%%3 == 0", m.value(1))
	case 1:
		return fmt.Sprintf("%s&1 == 0 && %s > 2", m.value(1), m.value(1))
	case 2:
		return fmt.Sprintf("odd(%s) || odd(%s)", m.value(1), m.value(2))
	}
	return fmt.Sprintf("%s > %s", m.value(1), m.value(1))
}

func (m *lineMaker) block(level int) {
	m.depth++
	for range 1 + m.IntN(3) {
		m.statement(level)
	}
	m.depth--
}

func (m *lineMaker) statement(level int) {
	kind := m.IntN(15)
	switch {
	case kind < 5 || level > 4:
		m.counted(m.one("%s += %s", "%s = %s", "%s ^= %s", "all[%s&7] = %s", "sink(%s, %s)"), m.variable(), m.value(0))
	case kind < 8:
		m.counted("if %s {", m.condition())
		m.block(level + 1)
		if m.IntN(2) == 0 {
			m.line("} else {")
			m.block(level + 1)
		}
		m.line("}")
	case kind < 10:
		n := m.counter()
		m.line("for i%d := 0; evaluated(%d, i%d < %d); i%d++ { //@ %d", n, n, n, 1+m.IntN(3), n, n)
		m.loops++
		m.block(level + 1)
		m.loops--
		m.line("}")
	case kind == 10:
		n := m.counter()
		m.line("for _, v%d := range all[:%d] {", n, 1+m.IntN(3))
		m.depth++
		m.counted("%s += v%d + f(%s)", m.variable(), n, m.variable())
		m.depth--
		m.loops++
		m.block(level + 1)
		m.loops--
		m.line("}")
	case kind == 11:
		m.choice(level)
	case kind == 12 && m.loops > 0:
		m.line("if %s {", m.condition())
		m.line("\t%s", m.one("continue", "break"))
		m.line("}")
	case kind == 13:
		m.function(level)
	default:
		m.line("if %s {", m.condition())
		m.depth++
		if m.literal > 0 {
			m.counted("return")
		} else {
			m.counted("return %s", m.value(0))
		}
		m.depth--
		m.line("}")
	}
}

// choice writes a switch, which has a jump table if it has many cases.
func (m *lineMaker) choice(level int) {
	m.counted("switch x := %s; x %% 12 {", m.value(0))
	for _, n := range m.Perm(12)[:[]int{2, 9}[m.IntN(2)]] {
		m.line("case %d:", n)
		m.block(level + 2)
	}
	m.line("default:")
	m.block(level + 2)
	m.line("}")
}

// function writes a function literal with a deferred call.
func (m *lineMaker) function(level int) {
	m.counted("func() {")
	m.depth++
	m.counted("defer did(0)")
	loops := m.loops
	m.literal, m.loops = m.literal+1, 0
	m.depth--
	m.block(level + 2)
	m.literal, m.loops = m.literal-1, loops
	m.line("}()")
}

// randomLines returns a program.
func randomLines(seed uint64) string {
	m := &lineMaker{Rand: rand.New(rand.NewPCG(seed, 79))}
	m.WriteString(`package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

var executed = map[string]int{}

//go:noinline
func did(n int) { executed[fmt.Sprint(n)]++ }

//go:noinline
func evaluated(n int, condition bool) bool { did(n); return condition }

//go:noinline
func f(a int) int { return a*3 + 1 }

//go:noinline
func g(a, b int) int { return a ^ b + 5 }

//go:noinline
func odd(a int) bool { return a&1 == 1 }

//go:noinline
func sink(a, b int) {}

func small(a int) int { return a*7 + 3 }

`)
	const functions = 6
	for i := range functions {
		m.line("func inlined%d(a, b, c, d int, all []int) int {", i)
		m.depth++
		m.counted("a += f(b)")
		m.counted("return a + %s", m.variable())
		m.depth--
		m.line("}\n")
		m.line("//go:noinline\nfunc fn%d(a, b, c, d int, all []int) int {", i)
		for range 2 {
			m.block(1)
			m.line("\tb = inlined%d(a, b, c, d, all)", m.IntN(i+1))
		}
		m.depth++
		m.counted("return g(a+b, c+d)")
		m.depth--
		m.line("}\n")
	}
	m.line("func main() {\n\tin := bufio.NewReader(os.Stdin)\n\t_, _ = in.ReadString('\\n')\n\tall := []int{1, 2, 3, 4, 5, 6, 7, 8}")
	m.line("\tfor k := range 40 {")
	for i := range functions {
		m.line("\t\tfn%d(k*7919%%13, k+1, k*%d, k^5, all)", i, i)
	}
	m.line("\t}\n\tout, _ := json.Marshal(executed)\n\tfmt.Println(string(out))\n\t_, _ = in.ReadString('\\n')\n}")
	return m.String()
}

// TestRandomLines: the statements of random programs have one event for each execution. Some have no code.
func TestRandomLines(t *testing.T) {
	testenv.NeedsRoot(t)
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			source := randomLines(seed)
			requireExecutions(t, build(t, source, nil), linesOf(source), 50)
		})
	}
}
