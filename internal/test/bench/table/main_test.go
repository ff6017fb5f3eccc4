//go:build linux

package table

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	work   = flag.String("work", "", "the directory with the programs")
	images = flag.String("images", "", "a directory for the Go programs' images")
	quick  = flag.Bool("quick", false, "fewer rounds")
	check  = flag.Bool("check", false, "compare with the targets, and fail when one is missed")
	write  = flag.Bool("write", false, "write docs/measured/cost.md, and the tables of docs/cost.md")

	onlyFunctions = flag.Bool("functions", false, "measure only the functions of programs without probes")
	onlyCommand   = flag.Bool("command", false, "measure only what the command takes")
	onlyRecorded  = flag.Bool("recorded", false, "measure only recorded events, by both clocks")
)

// everything reports whether no part was asked for.
func everything() bool { return !*onlyFunctions && !*onlyCommand && !*onlyRecorded }

// BenchmarkTable makes the tables, with the programs that scripts/bench.sh builds.
func BenchmarkTable(t *testing.B) {
	require.False(t, *write && !everything(), "-write needs all parts: what is published is of one run")
	r, all := results{}, everything()
	w := &report{machine: describeMachine(t)}
	fmt.Printf("%s.\n", w.machine)
	if all {
		r.measureProbes(t)
		w.section("Probes", r.probes())
	}
	if *onlyRecorded {
		r.measureRecorded(t, startSubjects(t))
	}
	if all || *onlyRecorded {
		w.section("Recorded by another clock", r.clocks())
	}
	if all || *onlyCommand {
		progress("command")
		r.measureCommand(t, rounds(9))
		w.section("The command", r.command())
		progress("answers")
		list := r.measureAnswers(t, rounds(9))
		w.section("Answers of the command", r.answered(list))
		progress("programs")
		r.measurePrograms(t, 3)
		w.section("Beside silent programs", r.programs())
	}
	if all || *onlyFunctions {
		progress("functions")
		r.measureFunctions(t, rounds(15))
		r.measureServer(t, rounds(9))
		r.measureBudget(t)
		w.section("Functions", r.functions())
	}
	if *write {
		w.publish(t, r)
	}
	if *check {
		require.True(t, judge(os.Stdout, r.targets()), "not every target was met")
	}
}

// measureProbes measures everything there is in the tables of probes.
func (r results) measureProbes(t testing.TB) {
	subjects := startSubjects(t)
	progress("idle")
	r.measure(t, subjects, idleCases(), rounds(15))
	progress("traced")
	r.measureTraced(t, subjects, tracedCases(), rounds(15))
	progress("load")
	r.measure(t, subjects, loadCases(), rounds(11))
	r.measure(t, subjects, largeCases(), rounds(5))
	r.measureRecorded(t, subjects) // the last, because it changes the programs
	for name := range subjects {
		subjects.end(t, name)
	}
	progress("size")
	r.measureHello(t)
}

// rounds is n, or what is left of it for -quick.
func rounds(n int) int {
	if *quick {
		return max(3, n/3)
	}
	return n
}

// progress tells on standard error what the program is at.
func progress(what string) { fmt.Fprintln(os.Stderr, "measuring:", what) }
