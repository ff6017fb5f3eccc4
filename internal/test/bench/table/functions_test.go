//go:build linux

package table

import (
	"fmt"
	"os/exec"
	"strconv"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"

	"github.com/stretchr/testify/require"
)

// functionCase is a way in which the calls of a function are traced, by a process and a file of its own: uprobes belong to
// files.
type functionCase struct {
	name string // of the subject
	row  string
	n    int      // calls in a round
	args []string // of stapsdt, or nil
	seen []string // what it counts, each as often as there are calls
}

// The names of the subjects.
const (
	untracedCalls = "untraced"
	pushCalls     = "push"
	entryCalls    = "entry"
	returnCalls   = "return"
	latencyCalls  = "latency"
	bpftraceCalls = "bpftrace"
)

func functionCases() []functionCase {
	const fast, slow = 20_000, 2_000
	const framed, leaf = "go:main.framed", "go:main.leaf"
	return []functionCase{
		{untracedCalls, "framed", 100 * fast, nil, nil},
		{pushCalls, "framed", fast, []string{"count", framed}, []string{"main.framed"}},
		{bpftraceCalls, "framed", slow, nil, nil},
		{entryCalls, "leaf", slow, []string{"count", leaf}, []string{"main.leaf"}},
		{returnCalls, "framed", slow, []string{"count", framed, framed + ":return"}, []string{"main.framed", "main.framed:return"}},
		{latencyCalls, "framed", slow, []string{"latency", framed}, []string{framed + ":return"}},
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
func (r results) measureFunctions(t *testing.T, rounds int) {
	subjects := subjects{}
	watchers := map[string]*tracetest.Process{}
	var theirs *tracetest.Tracer
	var list []measurement
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
		called := first + rounds*c.n
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
}
