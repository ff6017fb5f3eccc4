//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// program is what the tests run.
const program = "testdata/work.lua"

func TestMain(m *testing.M) { tracetest.BuildMain(m) }

// run starts the program, attaches a script, has the program do what it is told, and
// returns what the script printed as soon as that is what is expected: lines that it has not
// printed may be lost then. Maps never are.
func run(t *testing.T, attach func(p *tracetest.Process) *tracetest.Tracer, printed func(lines []string) bool, command string) string {
	t.Helper()
	p := tracetest.Command(t, exec.Command(tracetest.Build(t, "."), program))
	do := func(command string) {
		p.Say(command)
		p.Expect("done "+command, testenv.Patience)
	}
	do("flow") // before anybody looks
	tr := attach(p)
	do("ready")
	do(command)
	require.Eventually(t, func() bool { return printed(tr.Lines()) }, testenv.Patience, 10*time.Millisecond)
	out := tr.Stop() + "\n"
	do("idle") // the hooks take themselves out
	p.Hangup()
	require.NoError(t, p.Wait(testenv.Patience))
	return out
}

// line returns the number of the program's line that has a text.
func line(t *testing.T, text string) int {
	t.Helper()
	source, err := os.ReadFile(program)
	require.NoError(t, err)
	i := slices.IndexFunc(strings.Split(string(source), "\n"), func(l string) bool { return strings.Contains(l, text) })
	require.GreaterOrEqual(t, i, 0, text)
	return i + 1
}

// requireFlow compares what the script flow shows of one command: in order and without the
// time, and with @1 for the first coroutine that there was, and so on.
func requireFlow(t *testing.T, command string, want ...string) {
	t.Helper()
	// When the tracer is noticed, and so whether ready is called after it, varies.
	isReady := func(l string) bool { return strings.Contains(l, " ready ") }
	flow := func(p *tracetest.Process) *tracetest.Tracer {
		text, options := tracetest.FunctionScript(t, p, "../scripts/trace.sh", "lua", "flow")
		return tracetest.Bpftrace(t, text, options...)
	}
	out := run(t, flow, func(lines []string) bool { return len(slices.DeleteFunc(lines, isReady)) >= len(want) }, command)
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(out), "\n"), isReady)
	slices.Sort(lines) // all times have as many digits
	coroutines := map[string]string{}
	for i, l := range lines {
		m := regexp.MustCompile(`^\d+ (\d+) (\d+ (?:->|<-) \S+ \(testdata/work.lua:\d+\))$`).FindStringSubmatch(l)
		require.NotNil(t, m, l)
		if coroutines[m[1]] == "" {
			coroutines[m[1]] = fmt.Sprintf("@%d", len(coroutines)+1)
		}
		lines[i] = coroutines[m[1]] + " " + m[2]
	}
	require.Equal(t, want, lines)
}

func TestFlow(t *testing.T) {
	at := func(text string) string { return fmt.Sprintf("(%s:%d)", program, line(t, text)) }
	in, out := at("local function leaf(n)"), at("return n + 1")
	requireFlow(t, "flow",
		"@1 1 -> flow "+at("branch(2)"),
		"@1 2 -> branch "+at("local function branch(n)"),
		"@1 3 -> leaf "+in,
		"@1 3 <- leaf "+out,
		"@1 3 -> leaf "+in,
		"@1 3 <- leaf "+out,
		"@1 2 <- branch "+at("  return sum"),
		"@1 2 -> tail "+at("local function tail(n)"),
		"@1 2 <- tail "+at("return leaf(n)"),
		"@1 2 -> leaf "+in,
		"@1 2 <- leaf "+out,
		"@1 2 -> failing "+at(`error("on purpose")`),
		"@1 2 <- failing "+at(`error("on purpose")`),
		"@1 2 -> leaf "+in,
		"@1 2 <- leaf "+out,
		"@1 2 -> add "+at("local function add(_, n)"),
		"@1 3 -> leaf "+in,
		"@1 3 <- leaf "+out,
		"@1 2 <- add "+fmt.Sprintf("(%s:%d)", program, line(t, "n + leaf(3)")+1),
		"@1 1 <- flow ("+program+":0)")
}

// TestFlowOfError sees a function that an error left return before the one that caught
// the error.
func TestFlowOfError(t *testing.T) {
	failing := fmt.Sprintf("failing (%s:%d)", program, line(t, `error("on purpose")`))
	requireFlow(t, "catch",
		fmt.Sprintf("@1 1 -> catch (%s:%d)", program, line(t, "  pcall(failing)")),
		"@1 2 -> "+failing,
		"@1 2 <- "+failing,
		"@1 1 <- catch ("+program+":0)")
}

func TestFlowOfCoroutines(t *testing.T) {
	at := func(text string) string { return fmt.Sprintf("(%s:%d)", program, line(t, text)) }
	in, out := at("local function leaf(n)"), at("return n + 1")
	requireFlow(t, "coroutines",
		"@1 1 -> coroutines "+at("coroutine.wrap(generate)"),
		"@2 1 -> generate "+at("coroutine.yield(leaf(1))"),
		"@2 2 -> leaf "+in,
		"@2 2 <- leaf "+out,
		"@1 2 -> leaf "+in,
		"@1 2 <- leaf "+out,
		"@2 2 -> leaf "+in,
		"@2 2 <- leaf "+out,
		"@1 1 <- coroutines ("+program+":0)")
}

func TestLines(t *testing.T) {
	script := func(p *tracetest.Process) *tracetest.Tracer { return tracetest.Script(t, p, "scripts/lines.bt") }
	out := run(t, script, func([]string) bool { return true }, "flow")
	lines := tracetest.Table(t, out, "lines")
	executed := func(text string) int { return lines[fmt.Sprintf("%s, %d", program, line(t, text))] }
	require.Equal(t, 5, executed("return n + 1"))
	// Twice, and twice more when the call is back.
	require.Equal(t, 4, executed("sum = sum + leaf(i)"))
	require.Equal(t, 1, executed("branch(2)"))
	require.Equal(t, 1, executed(`error("on purpose")`))
	require.Zero(t, executed("coroutine.yield(leaf(1))"))
}
