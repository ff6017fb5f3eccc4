//go:build linux

package table

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/site"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var (
	work   = flag.String("work", "", "the directory with the programs")
	images = flag.String("images", "", "a directory for the Go programs' images")
	quick  = flag.Bool("quick", false, "fewer rounds")
	check  = flag.Bool("check", false, "compare with the targets, and fail when one is missed")
	write  = flag.Bool("write", false, "put the tables into docs/cost.md, between their marks")

	onlyFunctions = flag.Bool("functions", false, "measure only the functions of programs without probes")
	onlyCommand   = flag.Bool("command", false, "measure only what the command takes")
	onlyRecorded  = flag.Bool("recorded", false, "measure only recorded events, by both clocks")
)

// everything reports whether no part was asked for.
func everything() bool { return !*onlyFunctions && !*onlyCommand && !*onlyRecorded }

// BenchmarkTable makes the tables, with the programs that scripts/bench.sh builds.
func BenchmarkTable(t *testing.B) {
	machine, processors := describeMachine(t)
	r := results{}
	all := everything()
	if all {
		r.measureProbes(t)
		publish(t, "cost", processors, markdown(r, machine))
	}
	if *onlyRecorded {
		r.measureRecorded(t, startSubjects(t))
	}
	if all || *onlyRecorded {
		publish(t, "clocks", processors, r.clocks(machine))
	}
	if all || *onlyCommand {
		progress("command")
		r.measureCommand(t, rounds(9))
		publish(t, "command", processors, r.command(machine))
		progress("programs")
		r.measurePrograms(t, 3)
		publish(t, "programs", processors, r.programs(machine))
	}
	if all || *onlyFunctions {
		progress("functions")
		r.measureFunctions(t, rounds(15))
		r.measureServer(t, rounds(9))
		r.measureBudget(t)
		publish(t, "functions", processors, r.functions(machine))
	}
	if *check {
		require.True(t, report(os.Stdout, r.targets()), "not every target was met")
	}
}

// publish prints a table, and writes it into docs/cost.md if that was asked for. There it stands between two lines, of which
// the first names the table and the processors.
func publish(t testing.TB, table, processors, text string) {
	fmt.Print(text)
	if !*write {
		return
	}
	const path = "docs/cost.md"
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	beginMark := fmt.Sprintf("\n<!-- %s of %s -->\n", table, processors)
	endMark := fmt.Sprintf("\n<!-- /%s -->\n", table)
	before, rest, found := strings.Cut(string(content), beginMark)
	require.True(t, found, "%s has no line%s", path, beginMark)
	_, after, found := strings.Cut("\n"+rest, endMark)
	require.True(t, found, "%s has no line%s", path, endMark)
	require.NoError(t, os.WriteFile(path, []byte(before+beginMark+text+endMark[1:]+after), 0o644))
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

// results are figures by "subject phase row", as "go idle two".
type results map[string][]float64

// median returns the figure for a key. It is a mistake of this program to ask
// for what was not measured.
func (r results) median(key string) float64 {
	list := slices.Sorted(slices.Values(r[key]))
	if len(list) == 0 {
		panic("nothing was measured for " + key)
	}
	return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
}

// has reports whether something was measured for a key.
func (r results) has(key string) bool { return len(r[key]) > 0 }

// ratio returns the median, over the rounds, of one figure divided by another
// that was measured in the same round.
func (r results) ratio(key, to string) float64 {
	return r.pairs(key, to, func(a, b float64) float64 { return a / b })
}

// difference returns the median, over the rounds, of one figure less another.
func (r results) difference(key, less string) float64 {
	return r.pairs(key, less, func(a, b float64) float64 { return a - b })
}

func (r results) pairs(key, other string, compare func(a, b float64) float64) float64 {
	a, b := r[key], r[other]
	if len(a) != len(b) {
		panic(key + " and " + other + " were not measured in the same rounds")
	}
	compared := results{}
	for i := range a {
		compared[key] = append(compared[key], compare(a[i], b[i]))
	}
	return compared.median(key)
}

var modelLine = regexp.MustCompile(`(?m)^model name\s*:\s*(.*)$`)

// describeMachine returns a sentence that says what the figures are of, and the name of its
// processors.
func describeMachine(t testing.TB) (machine, processors string) {
	var uts unix.Utsname
	require.NoError(t, unix.Uname(&uts))
	says := func(words ...string) string {
		out, err := exec.Command(words[0], words[1:]...).Output()
		require.NoError(t, err, "%v", words)
		return strings.TrimSpace(string(out))
	}
	cpu := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if m := modelLine.FindSubmatch(info); m != nil {
			cpu = string(m[1])
		}
	}
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(*images, &fs))
	place := "on a disk"
	if fs.Type == unix.TMPFS_MAGIC {
		place = "on tmpfs"
	}
	// What follows the version is the builder's.
	kernel, _, _ := strings.Cut(unix.ByteSliceToString(uts.Release[:]), "-")
	return fmt.Sprintf("Linux %s (sites: %s), %d × %s, %s, gcc %s, %s, images %s", kernel, site.Chosen().Name, runtime.NumCPU(), cpu,
		strings.Replace(runtime.Version(), "go", "Go ", 1), says("gcc", "-dumpfullversion"), says("bpftrace", "--version"), place), cpu
}
