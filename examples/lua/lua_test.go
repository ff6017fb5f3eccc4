//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"

	"github.com/stretchr/testify/require"
)

const patience = time.Minute

// program is what the tests run.
const program = "testdata/work.lua"

func TestMain(m *testing.M) { tracetest.BuildMain(m) }

// run starts the program, attaches a script, has the program do what it is told, and
// returns what the script printed.
func run(t *testing.T, script string, commands ...string) string {
	t.Helper()
	return runUntil(t, func([]string) bool { return true }, script, commands...)
}

// runUntil waits, before it stops the script, until that has printed what is expected:
// lines that it has not printed may be lost then. Maps never are.
func runUntil(t *testing.T, printed func(lines []string) bool, script string, commands ...string) string {
	t.Helper()
	p := tracetest.Command(t, exec.Command(tracetest.Build(t, "."), program))
	do := func(command string) {
		p.Say(command)
		p.Expect("done "+command, patience)
	}
	do("flow") // before anybody looks
	tr := trace(t, p, script)
	for _, command := range append([]string{"ready"}, commands...) {
		do(command)
	}
	require.Eventually(t, func() bool { return printed(tr.Lines()) }, patience, 10*time.Millisecond)
	out := tr.Stop() + "\n"
	do("idle") // the hooks take themselves out
	p.Hangup()
	require.NoError(t, p.Wait(patience))
	return out
}

func trace(t *testing.T, p *tracetest.Process, script string) *tracetest.Tracer {
	t.Helper()
	file := filepath.Join("scripts", script)
	if script == "faults.bt" || script == "hot.bt" {
		return tracetest.KernelScript(t, p, "lua", file)
	}
	return tracetest.Script(t, p, file)
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

// requireFlow compares what flow.bt shows of one command: in order and without the
// time, and with @1 for the first coroutine that there was, and so on.
func requireFlow(t *testing.T, command string, want ...string) {
	t.Helper()
	// When the tracer is noticed, and so whether ready is called after it, varies.
	isReady := func(l string) bool { return strings.Contains(l, " ready ") }
	out := runUntil(t, func(lines []string) bool { return len(slices.DeleteFunc(lines, isReady)) >= len(want) }, "flow.bt", command)
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

func TestTime(t *testing.T) {
	out := run(t, "time.bt", "time", "recursion")
	calls, inclusive, exclusive := tracetest.Table(t, out, "calls"), tracetest.Table(t, out, "inclusive"), tracetest.Table(t, out, "exclusive")
	for _, m := range []map[string]int{calls, inclusive, exclusive} {
		delete(m, "ready")
	}
	require.Equal(t, map[string]int{"time": 1, "outer": 1, "spin": 4, "recursion": 1, "down": 5}, calls)
	// The program goes by the processor's time, which has a coarse clock: 450 and
	// 200 ms.
	require.GreaterOrEqual(t, exclusive["spin"], 400_000)
	require.GreaterOrEqual(t, exclusive["outer"], 180_000)
	require.Less(t, exclusive["time"], inclusive["time"]/4)
	require.Equal(t, exclusive["spin"], inclusive["spin"])
	require.InDelta(t, inclusive["outer"], exclusive["outer"]+inclusive["spin"], 10)
	require.InDelta(t, inclusive["time"], exclusive["time"]+inclusive["outer"], 10)
	// Five levels of 20 ms each: counted level by level they would be 300.
	require.GreaterOrEqual(t, exclusive["down"], 100_000)
	require.InDelta(t, inclusive["down"], exclusive["down"], 10)
}

func TestPageFaults(t *testing.T) {
	faults := tracetest.Table(t, run(t, "faults.bt", "memory"), "faults")
	// Ten buffers of a mebibyte, all of whose pages fill brings in. The first page
	// is there already when malloc keeps its books in it.
	pages := 10 * (1 << 20) / os.Getpagesize()
	require.InDelta(t, pages, faults["fill"], float64(pages)/10)
	require.Less(t, faults["allocate"], pages/10)
}

func TestLockWaits(t *testing.T) {
	tracetest.NeedTracefs(t)
	out := run(t, "locks.bt", "lock")
	waited, waits := tracetest.Table(t, out, "waited"), tracetest.Table(t, out, "waits")
	// The other program has the lock for 1,000 ms, of which critical comes 50 late,
	// or later when the machine is busy.
	require.Positive(t, waits["critical"])
	require.Greater(t, waited["critical"], 50_000)
	require.Less(t, waited["critical"], int(patience.Microseconds()))
	require.GreaterOrEqual(t, waited["lock"], 25_000)
	require.GreaterOrEqual(t, waited["<main chunk>"], 900_000)
}

func TestHotPath(t *testing.T) {
	samples := tracetest.Table(t, run(t, "hot.bt", "time"), "samples")
	spin, outer := samples["spin, outer, time"], samples["outer, time, "]
	all := 0
	for _, n := range samples {
		all += n
	}
	// 450 ms of processor time against 200, at 499 samples a second.
	require.Greater(t, spin, 100)
	require.Greater(t, outer, 40)
	require.Greater(t, spin, outer)
	require.GreaterOrEqual(t, spin+outer, all*9/10, samples)
}

func TestLines(t *testing.T) {
	lines := tracetest.Table(t, run(t, "lines.bt", "flow"), "lines")
	executed := func(text string) int { return lines[fmt.Sprintf("%s, %d", program, line(t, text))] }
	require.Equal(t, 5, executed("return n + 1"))
	// Twice, and twice more when the call is back.
	require.Equal(t, 4, executed("sum = sum + leaf(i)"))
	require.Equal(t, 1, executed("branch(2)"))
	require.Equal(t, 1, executed(`error("on purpose")`))
	require.Zero(t, executed("coroutine.yield(leaf(1))"))
}
