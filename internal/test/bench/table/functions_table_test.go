//go:build linux

package table

import (
	"fmt"
	"strings"
)

// callLines are the rows of the table of calls.
var callLines = []struct{ what, name string }{
	{"not traced", untracedCalls},
	{"**counted at the push** after the stack check, `stapsdt count`", pushCalls},
	{"counted at the symbol, bpftrace's `uprobe` and `count()`", bpftraceCalls},
	{"counted at the entry, because there is no frame, `stapsdt count`", entryCalls},
	{"call and return counted, `stapsdt count`", returnCalls},
	{"call and return paired, `stapsdt latency`", latencyCalls},
}

// serverLines are the rows of the table of the server.
var serverLines = []struct{ what, way string }{
	{"not traced", serverUntraced},
	{"**calls of three functions counted**, `stapsdt count`", serverCalls},
	{"returns of the three counted, `stapsdt count`", serverReturns},
	{"calls of the three counted by bpftrace", serverBpftrace},
}

// functions returns the tables of functions.
func (r results) functions(machine string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s.\n\n", machine)
	s.WriteString("| a call of a Go function | processor time | beside the push |\n|---|--:|--:|\n")
	for _, l := range callLines {
		key := functionKey(l.name)
		fmt.Fprintf(&s, "| %s | %s | %.2g |\n", l.what, nanoseconds(r.median(key)), r.ratio(key, functionKey(pushCalls)))
	}
	s.WriteString("\n| a net/http server and its clients keep all processors busy | requests per second | slower |\n|---|--:|--:|\n")
	for _, l := range serverLines {
		slower := ""
		if l.way != serverUntraced {
			slower = fmt.Sprintf("%.0f %%", r.slower(l.way))
		}
		fmt.Fprintf(&s, "| %s | %.0f | %s |\n", l.what, r.median(l.way), slower)
	}
	fmt.Fprintf(&s, "\nWith `--budget 1%%` at the calls and returns of the three functions, the probes took %.2f %% of the server's processor time in 20 seconds: the events times the "+
		"prices of the first table. The command itself said %.2g %%.\n", r.median(budgetShare), r.median(budgetOwn))
	return s.String()
}

// slower returns by how many percent a way of tracing slows the server down.
func (r results) slower(way string) float64 { return 100 * (1 - r.ratio(way, serverUntraced)) }

// functionTargets are the promises about functions. The ratio to bpftrace's uprobes is that of a virtual machine, where a
// debug trap leaves it.
func (r results) functionTargets() []target {
	var list targetList
	list.beside(r, "functions: a call at the push, beside bpftrace's uprobe at the symbol", 0.1, functionKey(pushCalls), functionKey(bpftraceCalls))
	list.add("functions: a server whose calls of three functions are counted is slower by", 10, "%", r.slower(serverCalls))
	list.add("functions: processor time of the probes with --budget 1%", 1.2, "%", r.median(budgetShare))
	list.add("functions: the same as the command says", 1.2, "%", r.median(budgetOwn))
	return list
}
