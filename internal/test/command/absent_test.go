//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// absentEvents are the events of a round of testdata/absent.c: number and text.
var absentEvents = map[string]int{"111 absent": 1, "222 resident": 1}

// TestAbsentPage: while the kernel fetches the text of an event, another thread fires on the same processor. Each event has the
// text of its own thread, in all that evaluates expressions in the kernel.
func TestAbsentPage(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	program := filepath.Join(t.TempDir(), "absent")
	runTool(t, exec.Command(needsSDT(t), "-O2", "-Wall", "-Werror", "-pthread", "-o", program, "testdata/absent.c"))
	text := func(values map[string]any) string { return fmt.Sprint(values["arg0"], " ", values["str(arg1)"]) }
	run := func(name string, got func(t *testing.T, p *tracetest.Process) map[string]int) {
		t.Run(name, func(t *testing.T) { require.Equal(t, absentEvents, got(t, startProcess(t, exec.Command(program)))) })
	}
	const values = "arg0,str(arg1)"
	for _, where := range [][]string{nil, {"-w", `str(arg1) != "other"`}} {
		run(fmt.Sprint("trace ", where), func(t *testing.T, p *tracetest.Process) map[string]int {
			tr := startTrace(t, p, append([]string{"trace", "-o", "json", "-p", pid(p), "absent:begin", "--show", values}, where...)...)
			tell(p, "begin")
			got := map[string]int{}
			for _, e := range tr.stop() {
				got[text(e.Args)]++
			}
			return got
		})
	}
	for _, args := range [][]string{{"count"}, {"count", "-w", `strings.Contains(str(arg1), "s")`}, {"hist", "arg0"}} {
		run(fmt.Sprint(args), func(t *testing.T, p *tracetest.Process) map[string]int {
			tr := startTrace(t, p, slices.Concat([]string{args[0], "absent:begin", "-o", "json", "-p", pid(p), "--by", values}, args[1:])...)
			tell(p, "begin")
			got := map[string]int{}
			for _, row := range tr.stopCounting() {
				got[text(row.By)] += row.Count
			}
			return got
		})
	}
	for _, args := range [][]string{{"begin", "--key", "arg0"}, {"begin", "--key", "str(arg1)"}, {"resident", "--key", "arg0", "-w", `str(arg1) != "other"`}} {
		run(fmt.Sprint("latency ", args), func(t *testing.T, p *tracetest.Process) map[string]int {
			tr := startTrace(t, p, slices.Concat([]string{"latency", "-o", "json", "-p", pid(p), "absent:begin", "absent:end", "--by", values}, args[1:])...)
			tell(p, args[0])
			tell(p, "end")
			rows, unpaired := tr.stopMeasuring()
			require.Zero(t, *unpaired.StartsWithoutEnd+unpaired.EndsWithoutStart)
			got := map[string]int{}
			for _, row := range rows {
				got[text(row.By)] += row.Count
			}
			return got
		})
	}
	run("export", func(t *testing.T, p *tracetest.Process) map[string]int {
		e := startExporter(t, "absent", `metrics:
  - {name: absent_total, probe: "PROVIDER:begin", counter: 1, by: [{number: arg0}, {text: "str(arg1)"}], labels: []}
`)
		e.waitForSites("absent_total", 1)
		tell(p, "begin")
		got := map[string]int{}
		for labels, n := range series(e.scrape(), "absent_total") {
			got[strings.NewReplacer(`{number="`, "", `",text="`, " ", `"}`, "").Replace(labels)] += int(n)
		}
		return got
	})
}
