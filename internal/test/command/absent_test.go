//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
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
	start := func(t *testing.T) *tracetest.Process {
		p := startProcess(t, exec.Command(program))
		return p
	}
	text := func(values map[string]any) string { return fmt.Sprint(values["arg0"], " ", values["str(arg1)"]) }

	for name, args := range map[string][]string{
		"show":  {"--show", "arg0,str(arg1)"},
		"where": {"--show", "arg0,str(arg1)", "-w", `str(arg1) != "other"`},
	} {
		t.Run("trace/"+name, func(t *testing.T) {
			p := start(t)
			tr := startTrace(t, p, append([]string{"trace", "-o", "json", "-p", pid(p), "absent:begin"}, args...)...)
			tell(p, "begin")
			got := map[string]int{}
			for _, e := range tr.stop() {
				got[text(e.Args)]++
			}
			require.Equal(t, absentEvents, got)
		})
	}
	for name, args := range map[string][]string{
		"count": {"count", "absent:begin"},
		"where": {"count", "absent:begin", "-w", `strings.Contains(str(arg1), "s")`},
		"hist":  {"hist", "absent:begin", "arg0"},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t)
			tr := startTrace(t, p, append(args, "-o", "json", "-p", pid(p), "--by", "arg0,str(arg1)")...)
			tell(p, "begin")
			got := map[string]int{}
			for _, row := range tr.stopCounting() {
				got[text(row.By)] += row.Count
			}
			require.Equal(t, absentEvents, got)
		})
	}
	for name, test := range map[string]struct {
		begin string
		args  []string
	}{
		"by":    {"begin", []string{"--key", "arg0", "--by", "arg0,str(arg1)"}},
		"key":   {"begin", []string{"--key", "str(arg1)", "--by", "arg0,str(arg1)"}},
		"where": {"resident", []string{"--key", "arg0", "--by", "arg0,str(arg1)", "-w", `str(arg1) != "other"`}},
	} {
		t.Run("latency/"+name, func(t *testing.T) {
			p := start(t)
			tr := startTrace(t, p, append([]string{"latency", "-o", "json", "-p", pid(p), "absent:begin", "absent:end"}, test.args...)...)
			tell(p, test.begin)
			tell(p, "end")
			rows, unpaired := tr.stopMeasuring()
			got := map[string]int{}
			for _, row := range rows {
				got[text(row.By)] += row.Count
			}
			require.Equal(t, absentEvents, got)
			require.Zero(t, *unpaired.StartsWithoutEnd)
			require.Zero(t, unpaired.EndsWithoutStart)
		})
	}
	t.Run("export", func(t *testing.T) {
		e := startExporter(t, "absent", `metrics:
  - {name: absent_total, probe: "PROVIDER:begin", counter: 1, by: [{number: arg0}, {text: "str(arg1)"}], labels: []}
`)
		p := start(t)
		e.waitForSites("absent_total", 1)
		tell(p, "begin")
		got := map[string]int{}
		for labels, n := range series(e.scrape(), "absent_total") {
			got[strings.NewReplacer(`{number="`, "", `",text="`, " ", `"}`, "").Replace(labels)] += int(n)
		}
		require.Equal(t, absentEvents, got)
	})
}
