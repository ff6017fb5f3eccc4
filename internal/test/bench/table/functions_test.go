//go:build linux

package table

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// functionCase is a way in which the calls of a function are traced, by a process and a file of its own: uprobes belong to
// files. It is a row of the table of calls.
type functionCase struct {
	name string // of the subject
	what string
	row  string
	n    int      // calls in a round
	args []string // of stapsdt, or nil
	seen []string // what it counts, each as often as there are calls
}

// The names of subjects whose figures are compared with others.
const (
	untracedCalls = "untraced"
	pushCalls     = "push"
	returnCalls   = "return"
	bpftraceCalls = "bpftrace"
	trapCalls     = trap + " functions call"
)

func functionCases() []functionCase {
	const fast, slow = 20_000, 2_000
	const framed, leaf, line = "go:main.framed", "go:main.leaf", "go:lined.go:14"
	return []functionCase{
		{untracedCalls, "not traced", "framed", 100 * fast, nil, nil},
		{pushCalls, "**counted at the push** after the stack check, `stapsdt count`", "framed", fast, []string{"count", framed}, []string{"main.framed"}},
		{bpftraceCalls, "counted at the symbol, bpftrace's `uprobe` and `count()`", "framed", slow, nil, nil},
		{"entry", "counted at the entry, because there is no frame, `stapsdt count`", "leaf", slow, []string{"count", leaf}, []string{"main.leaf"}},
		{returnCalls, "call and return counted, `stapsdt count`", "framed", slow,
			[]string{"count", framed, framed + ":return"}, []string{"main.framed", "main.framed:return"}},
		{"latency", "call and return paired, `stapsdt latency`", "framed", slow, []string{"latency", framed}, []string{framed + ":return"}},
		{"line", "**a line counted**, `stapsdt count`", "lined", slow, []string{"count", line}, []string{"lined.go:14"}},
	}
}

func (c *functionCase) key() string { return c.name + " functions " + c.row }

// functionKey returns the key of what a subject was asked for.
func functionKey(name string) string {
	for _, c := range functionCases() {
		if c.name == name {
			return c.key()
		}
	}
	panic("no case " + name)
}

// measureFunctions measures the calls of functions, in rounds. It fails when a tracer has not counted every call.
func (r results) measureFunctions(t testing.TB, rounds int) {
	subjects := subjects{}
	subjects.start(t, pureGo, exec.Command(filepath.Join(*work, "subject-"+pureGo)))
	watchers := map[string]*tracetest.Process{}
	var theirs *tracetest.Tracer
	list := fires(pureGo, "functions", 100_000, clock)
	trapped := subjects.startTrap(t)
	list = append(list, fires(trap, "functions", 20_000, "call")...)
	const first = 100 // the kernel prepares a site when it is hit for the first time
	for _, c := range functionCases() {
		path := copyProgram(t, "functions", c.name)
		subjects.start(t, c.name, exec.Command(path, "calls"))
		pid := subjects[c.name].PID()
		switch {
		case c.name == bpftraceCalls:
			theirs = tracetest.Bpftrace(t, fmt.Sprintf(`uprobe:%s:"main.framed" { @ = count(); }`, path), "-p", strconv.Itoa(pid))
		case c.args != nil:
			watchers[c.name] = watch(t, pid, c.args...)
		}
		subjects.ask(t, c.name, c.row, first)
		list = append(list, fires(c.name, "functions", c.n, c.row)...)
	}
	r.measure(t, subjects, list, rounds)
	for _, c := range functionCases() {
		called := first + rounds*repeats*c.n
		switch {
		case c.name == bpftraceCalls:
			// At the entry, a call counts again when the scheduler has preempted it there.
			require.GreaterOrEqual(t, counted(t, theirs), called)
		case c.args != nil:
			seen := stopWatching(t, watchers[c.name])
			for _, name := range c.seen {
				require.Equal(t, called, seen[name], "%s: %v", c.name, seen)
			}
		}
		subjects.end(t, c.name)
	}
	subjects.end(t, pureGo)
	subjects.end(t, trap)
	trapped.Stop()
}

// serverLines are the rows of the table of the server.
var serverLines = []struct{ what, way string }{
	{"not traced", serverUntraced},
	{"**calls of three functions counted**, `stapsdt count`", serverCalls},
	{"returns of the three counted, `stapsdt count`", serverReturns},
	{"calls of the three counted by bpftrace", serverBpftrace},
}

// functions returns the tables of functions.
func (r results) functions() string {
	var s strings.Builder
	s.WriteString("| a call of a Go function | processor time | beside the push |\n|---|--:|--:|\n")
	row(&s, "a trap alone: a one-byte nop in C, bpftrace's `count()`", r.cells(trapCalls, nanoseconds, functionKey(pushCalls)))
	for _, c := range functionCases() {
		row(&s, c.what, r.cells(c.key(), nanoseconds, functionKey(pushCalls)))
	}
	s.WriteString("\n| a net/http server and its clients keep all processors busy | requests per second | of those not traced |\n|---|--:|--:|\n")
	for _, l := range serverLines {
		row(&s, l.what, r.cells(l.way, func(v float64) string { return fmt.Sprintf("%.0f", v) }, serverUntraced))
	}
	fmt.Fprintf(&s, "\nWith `--budget 1%%` at the calls and returns of the three functions, the probes took %.2f %% of the server's processor time in 20 seconds: the events times the\n"+
		"prices of the first table. The command itself said %.2g %%.\n", r.median(budgetShare), r.median(budgetOwn))
	return s.String()
}

// slower returns by how many percent a way of tracing slows the server down.
func (r results) slower(way string) float64 { return 100 * (1 - r.ratio(way, serverUntraced)) }

// watch runs a verb of the command on functions of a process, and returns when it has attached to them.
func watch(t testing.TB, pid int, args ...string) *tracetest.Process {
	w := tracetest.Command(t, exec.Command(filepath.Join(*work, "stapsdt"), append(args, "-v", "-o", "json", "-p", strconv.Itoa(pid))...))
	w.WaitSaid(regexp.MustCompile(`probes? of 1 process`), testenv.Patience)
	return w
}

// stopWatching ends the command and returns what it has counted, by probe.
func stopWatching(t testing.TB, w *tracetest.Process) map[string]int {
	w.Signal(os.Interrupt)
	require.NoError(t, w.Wait(testenv.Patience))
	counts := map[string]int{}
	for _, line := range w.Lines() {
		var row struct {
			Probe, End string
			Count      int
		}
		require.NoError(t, json.Unmarshal([]byte(line), &row), line)
		counts[row.Probe+row.End] += row.Count
	}
	return counts
}
