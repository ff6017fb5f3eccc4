//go:build linux && (amd64 || arm64)

package functions

import (
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/objects"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestStapsdt counts calls, measures the time between entry and return, and shows each entry,
// with the command.
func TestStapsdt(t *testing.T) {
	each(t, func(t *testing.T, p *program) {
		c := p.commands(t, func() { p.does("ready") })
		p.does("flow")
		p.does("work")
		entries, called, took := c.results(t)
		require.Equal(t, []string{"flow", "branch", "leaf", "leaf", "failing", "leaf", "work"}, only(entries, "flow", "branch", "leaf", "failing", "work"))
		for function, n := range flowCalls {
			require.Equal(t, n, called[function].Count, "%s: %v", function, called)
			require.Equal(t, n, took[function].Count, "%s: %v", function, took)
		}
		require.Equal(t, 4, called["spin"].Count)
		require.Equal(t, 4, took["spin"].Count)
		require.GreaterOrEqual(t, took["spin"].Average, float64(40*time.Millisecond)) // of 50, of which Lua's threads share some
	})
}

// commands are stapsdt count, latency and trace, which run on a program. name is the expression
// of the function's name.
type commands struct {
	count, latency, trace *tracetest.Process
	name                  string
}

var (
	usdt     = regexp.MustCompile(`(?m)^usdt:(.*):(\w+:\w+)$`)
	nameInIt = regexp.MustCompile(`@exclusive\[str\(arg\d\), (str\(arg\d\))\]`)
)

// commands starts the commands, and calls poke, which has the program call a function, until
// each has seen one.
func (p *program) commands(t *testing.T, poke func()) *commands {
	t.Helper()
	text, _ := p.script(t, "time")
	probes, name := usdt.FindAllStringSubmatch(text, -1), nameInIt.FindStringSubmatch(text)
	require.Len(t, probes, 2, text)
	require.NotNil(t, name, text)
	function := name[1]
	if p.language.name == "lua" || p.language.name == "wasm" {
		function = "function" // these probes name their arguments
	}
	entry, ret, process := probes[0][2], probes[1][2], []string{"-p", strconv.Itoa(p.PID())}
	if file := probes[0][1]; file != "*" { // by process, Ruby's own probes would be counted too
		entry, ret, process = file+":"+entry, file+":"+ret, nil
	}
	stapsdt := tracetest.Stapsdt(t)
	start := func(args ...string) *tracetest.Process {
		cmd := tracetest.Command(t, exec.Command(stapsdt, slices.Concat(args, process, []string{"-o", "json"})...))
		require.Eventually(t, func() bool {
			poke()
			return slices.ContainsFunc(cmd.Lines(), func(line string) bool { return strings.HasPrefix(line, "{") })
		}, testenv.Patience, 10*time.Millisecond)
		return cmd
	}
	return &commands{
		count:   start("count", entry, "--by", function, "-i", "100ms"),
		latency: start("latency", entry, ret, "--key", function, "--by", function, "-i", "100ms"),
		trace:   start("trace", entry, "--show", function),
		name:    function,
	}
}

// row is a line of count or latency. Average is in nanoseconds.
type row struct {
	By      map[string]string
	Count   int
	Average float64
}

// results interrupts the commands, and returns the functions in the order of their entries, and
// what count and latency found, by function.
func (c *commands) results(t *testing.T) (entries []string, called, took map[string]row) {
	t.Helper()
	end := func(cmd *tracetest.Process) []string {
		cmd.Signal(syscall.SIGINT)
		require.NoError(t, cmd.Wait(testenv.Patience))
		return cmd.Lines()
	}
	rows := func(lines []string) map[string]row {
		last := map[string]row{} // they are printed at each interval, too
		for _, line := range lines {
			var r row
			objects.Decode(t, line, &r)
			if r.By != nil {
				last[r.By[c.name]] = r
			}
		}
		return last
	}
	for _, line := range end(c.trace) {
		var event struct{ Args map[string]string }
		objects.Decode(t, line, &event)
		entries = append(entries, event.Args[c.name])
	}
	return entries, rows(end(c.count)), rows(end(c.latency))
}

// only returns the entries of some functions.
func only(entries []string, functions ...string) []string {
	return slices.DeleteFunc(slices.Clone(entries), func(name string) bool { return !slices.Contains(functions, name) })
}
