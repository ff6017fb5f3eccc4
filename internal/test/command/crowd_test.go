//go:build linux && (amd64 || arm64)

// What is large, or changes a lot at once: processes, files, series, rules.

package command_test

import (
	"bufio"
	"fmt"
	"iter"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestExportBriefProcesses: processes that live for milliseconds are counted completely, and the
// exporter remembers none of them. In the long run they are 5,000.
func TestExportBriefProcesses(t *testing.T) {
	t.Parallel()
	const fires, parallel = 10, 4
	processes := 5000
	if testing.Short() {
		processes = 100
	}
	p, e := startExported(t, saidRule)
	e.waitForSites("said_total", 1)
	directory := imageDirectory(t, p)
	program := tracetest.Build(t, "subject")
	var group sync.WaitGroup
	for range parallel {
		group.Go(func() {
			for range processes / parallel {
				cmd := exec.Command(program, "exportee", e.provider, strconv.Itoa(fires))
				cmd.Env = append(os.Environ(), "STAPSDT_DIR="+directory)
				assert.NoError(t, cmd.Run())
			}
		})
	}
	group.Wait()
	require.Equal(t, map[string]float64{`{text="once"}`: float64(processes * fires)}, series(e.scrape(), "said_total"))
	if !testing.Short() {
		requirePeak(t, e.Process, 64)
	}
}

// TestExportManySeries: ten rules with the most series that a rule may have, 100,000 in total, are
// counted and scraped.
func TestExportManySeries(t *testing.T) {
	testenv.Measures(t, "memory and the time of a scrape of 100,000 series")
	const rules, each = 10, 10_000
	text := "metrics:\n"
	for i := range rules {
		text += fmt.Sprintf("  - {name: said%d_total, probe: 'PROVIDER:said', counter: 1, by: [text], labels: [], series: %d}\n", i, each)
	}
	p, e := startExported(t, text)
	for i := range rules {
		e.waitForSites(fmt.Sprintf("said%d_total", i), 1)
	}
	tell(p, fmt.Sprintf("many 0 %d", each))
	start := time.Now()
	all := e.scrape()
	testenv.Figure(t, "scrape", time.Since(start).Seconds(), 5, "s")
	for i := range rules {
		require.Len(t, series(all, fmt.Sprintf("said%d_total", i)), each)
	}
	requirePeak(t, e.Process, 256)
	tell(p, fmt.Sprintf("many %d %d", each, each+500))
	other := e.scrape()[`said0_total{otel_metric_overflow="true"}`]
	require.GreaterOrEqual(t, other, 500.)
}

// TestExportManyScrapers: 50 clients that scrape 20,000 series at once, a page of 14 MB, get all of them, and take little more
// memory than one.
func TestExportManyScrapers(t *testing.T) {
	testenv.Measures(t, "memory with 50 scrapers of 20,000 series")
	const each, scrapers, rounds = 10_000, 50, 2
	p, e := startExported(t, fmt.Sprintf(`metrics:
  - {name: said_total, probe: 'PROVIDER:said', counter: 1, by: [text], labels: [], series: %[1]d}
  - {name: said_size_bytes, probe: 'PROVIDER:said', histogram: bytes, unit: bytes, by: [text], labels: [], series: %[1]d}
`, each))
	e.waitForSites("said_total", 1)
	e.waitForSites("said_size_bytes", 1)
	tell(p, fmt.Sprintf("many 0 %d", each))
	require.Len(t, series(e.scrape(), "said_total"), each)
	testenv.Figure(t, "memory with one scraper", float64(peak(t, e.Process)>>20), 160, "MB")
	var group sync.WaitGroup
	for range scrapers {
		group.Go(func() {
			for range rounds {
				counters, histograms := 0, 0
				for line := range scrapedLines(t, e.url) {
					if strings.HasPrefix(line, "said_total{") {
						counters++
					} else if strings.HasPrefix(line, "said_size_bytes_count{") {
						histograms++
					}
				}
				assert.Equal(t, [2]int{each, each}, [2]int{counters, histograms})
			}
		})
	}
	group.Wait()
	requirePeak(t, e.Process, 200)
}

// scrapedLines returns the lines of a page, which is not kept in memory.
func scrapedLines(t *testing.T, url string) iter.Seq[string] {
	return func(yield func(string) bool) {
		response, err := http.Get(url)
		if !assert.NoError(t, err) {
			return
		}
		defer response.Body.Close()
		assert.Equal(t, http.StatusOK, response.StatusCode)
		lines := bufio.NewScanner(response.Body)
		for lines.Scan() && yield(lines.Text()) {
		}
		assert.NoError(t, lines.Err())
	}
}

// TestExportRulesRemoved: a scrape does not wait for rules that a new file no longer has, and what the others have counted
// stays.
func TestExportRulesRemoved(t *testing.T) {
	t.Parallel()
	rules := 30
	if !testing.Short() {
		rules = 300
	}
	text := saidRule
	for i := range rules {
		text += fmt.Sprintf("  - {name: said%d_total, probe: 'PROVIDER:said', counter: 1, where: bytes > %d, labels: []}\n", i, i)
	}
	p, e := startExported(t, text)
	e.waitForSites(fmt.Sprintf("said%d_total", rules-1), 1)
	tell(p, `say "before"`)
	longest := time.Duration(0)
	scrape := func() map[string]float64 {
		start := time.Now()
		all := e.scrape()
		longest = max(longest, time.Since(start))
		return all
	}
	require.Equal(t, 1., scrape()[`said0_total`])
	e.writeRules(saidRule)
	require.Eventually(t, func() bool {
		_, ok := scrape()["said0_total"]
		return !ok
	}, testenv.Patience, time.Millisecond)
	tell(p, `say "after"`)
	require.Equal(t, map[string]float64{`{text="before"}`: 1, `{text="after"}`: 1}, series(scrape(), "said_total"))
	if !testing.Short() {
		testenv.Figure(t, "the longest scrape", longest.Seconds(), 1, "s")
	}
}

// TestHostileCrowd: 10,000 files of a user, each with the probe that a rule names, do not delay
// another user's program.
func TestHostileCrowd(t *testing.T) {
	testenv.Measures(t, "how soon a program is counted beside 10,000 files")
	testenv.NeedsRoot(t)
	const provider = "hostile_crowd"
	e := startExporter(t, provider, anyRule)
	startAttacks(t, provider, "said", "crowd")
	requireCounted(t, e, provider, 3)
	require.Eventually(t, func() bool {
		skipped := 0.
		for _, n := range series(e.scrape(), "stapsdt_skipped_files_total") {
			skipped += n
		}
		return skipped > 0
	}, testenv.Patience, 100*time.Millisecond)
}

// TestOtherMounts: a process whose program's path leads to another file in its mount namespace is traced
// by the file that it runs, and so is one that then runs the other file.
func TestOtherMounts(t *testing.T) {
	testenv.NeedsRoot(t)
	unshare := testenv.NeedsTool(t, "unshare", "util-linux")
	dir := t.TempDir()
	build := func(name, arg string) string {
		source := fmt.Sprintf(`
#include <stdio.h>
#include <sys/sdt.h>
int main(void)
{
	char line[100];
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof line, stdin) && line[0] != 'q') {
		%s
		puts("ok");
	}
}
`, arg)
		path := dir + "/" + name
		compileText(t, path, source, "-O2")
		return path
	}
	// The sites are at different places in the two files.
	program := build("program", `DTRACE_PROBE1(mounts, fired, 1);`)
	other := build("other", `if (line[0] == 'x') puts("this moves the site"); DTRACE_PROBE1(mounts, fired, 2);`)
	tr := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), "trace", "-o", "json", "-a", "mounts:fired")), t}
	script := `exec 3<&0; "$1" <&3 & first=$!
until [ "$(readlink /proc/$first/exe)" = "$1" ]; do sleep 0.01; done # or it executes the other one
mount --bind "$2" "$1"; echo mounted; wait $first; exec "$1" <&3`
	p := tracetest.Command(t, exec.Command(unshare, "--mount", "sh", "-ec", script, "sh", program, other))
	p.Expect("mounted", testenv.Patience)
	fire := func(want float64) {
		require.Eventually(t, func() bool {
			p.Say("fire")
			p.Expect("ok", testenv.Patience)
			events := lines[event](t, strings.Join(tr.Lines(), "\n"))
			return len(events) > 0 && events[len(events)-1].Args["arg0"] == want
		}, testenv.Patience, 50*time.Millisecond)
	}
	fire(1)
	p.Say("quit")
	p.Expect("ready", testenv.Patience)
	fire(2)
	tr.stop()
}

// TestDamagedFiles: files whose notes, operands, names, symbols and types were damaged at random neither end
// the command nor keep it busy: an exporter that finds them mapped, and list, which is given them.
func TestDamagedFiles(t *testing.T) {
	testenv.NeedsRoot(t)
	t.Parallel()
	const provider = "damaged"
	seed, files, listed := int64(1), 50, 10
	if !testing.Short() {
		seed, files, listed = time.Now().UnixNano(), 2000, 40
	}
	t.Logf("SEED=%d", seed)
	whole := filepath.Join(t.TempDir(), "whole")
	source := `
#include <stdio.h>
#include <sys/sdt.h>
struct order { int id; const char *name; struct order *next; } first;
int main(int argc, char **argv)
{
	DTRACE_PROBE3(damaged, said, argc, argv[0], &first);
	DTRACE_PROBE2(damaged, said, first.id, (long)argc * 3);
	DTRACE_PROBE1(damaged, other, &first);
}
`
	compileText(t, whole, source, "-g", "-O1")
	require.NoError(t, os.Chmod(filepath.Dir(whole), 0o755))

	e := startExporter(t, provider, anyRule)
	attacker, directory := commandAs(t, 40000, tracetest.Build(t, "hostile"))
	attacker.Args = append(attacker.Args, "damaged", directory, provider, "said")
	attacker.Env = append(attacker.Env, fmt.Sprintf("DAMAGED=%d %d %s", seed, files, whole))
	startProcess(t, attacker)
	requireCounted(t, e, provider, 2)

	for i := range listed {
		r := runCommand(t, "list", filepath.Join(directory, strconv.Itoa(i)))
		require.Contains(t, []int{0, 1, 2, 3}, r.status, r.stderr)
		require.NotContains(t, r.stderr, "goroutine ")
	}
}
