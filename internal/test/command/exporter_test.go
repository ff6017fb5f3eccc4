//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
)

// exporter is the command export.
type exporter struct {
	*tracetest.Process
	t        testing.TB
	provider string
	rules    string // the file
	url      string
}

// startExporter starts the exporter with rules, in which PROVIDER is the provider, and options.
func startExporter(t testing.TB, provider, rules string, options ...string) *exporter {
	t.Helper()
	e := newExporter(t, provider, rules, func(args ...string) *exec.Cmd { return exec.Command(stapsdt(t), append(args, options...)...) })
	e.waitUntilServing()
	return e
}

// newExporter starts the exporter by a command that gets its arguments.
func newExporter(t testing.TB, provider, rules string, command func(args ...string) *exec.Cmd) *exporter {
	t.Helper()
	testenv.NeedsRoot(t)
	e := &exporter{t: t, provider: provider, rules: filepath.Join(t.TempDir(), "rules.yaml")}
	e.writeRules(rules)
	makeReadable(t, e.rules)
	e.Process = tracetest.Command(t, command("export", "-c", e.rules, "--listen", "localhost:0"))
	t.Cleanup(func() { // killed, it would detach from one file after another, which takes minutes
		e.Signal(syscall.SIGTERM)
		_ = e.Wait(testenv.Patience)
	})
	return e
}

var answering = regexp.MustCompile(`metrics are at (http://\S+)`)

// waitUntilServing waits until the exporter answers.
func (e *exporter) waitUntilServing() {
	e.t.Helper()
	e.url = e.WaitSaid(answering, testenv.Patience)[1]
}

// waitForMessage waits for a message of the exporter, and returns the groups of the pattern.
func (e *exporter) waitForMessage(pattern string) (groups []string) {
	e.t.Helper()
	return e.WaitSaid(regexp.MustCompile(pattern), testenv.Patience)
}

// writeRules replaces the rules.
func (e *exporter) writeRules(rules string) {
	e.t.Helper()
	text := strings.ReplaceAll(rules, "PROVIDER", e.provider)
	temp := e.rules + ".new"
	require.NoError(e.t, os.WriteFile(temp, []byte(text), 0o644))
	require.NoError(e.t, os.Rename(temp, e.rules))
}

// scrape returns the values of the series, by what is before them in a line.
func (e *exporter) scrape() map[string]float64 {
	e.t.Helper()
	response := tracetest.Must(http.Get(e.url))(e.t)
	defer response.Body.Close()
	body := tracetest.Must(io.ReadAll(response.Body))(e.t)
	require.Equal(e.t, http.StatusOK, response.StatusCode, string(body))
	values := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		line = strings.TrimSpace(line)
		if at := strings.LastIndexByte(line, ' '); at > 0 && line[0] != '#' {
			value, err := strconv.ParseFloat(line[at+1:], 64)
			require.NoError(e.t, err, line)
			values[withoutPod(line[:at])] = value
		}
	}
	return values
}

var (
	podLabel = regexp.MustCompile(`([{,])(?:container|namespace|pod)="",?`)
	noLabels = regexp.MustCompile(`^(\w+)\{\}$`)
)

// withoutPod returns the name of a series without the empty labels of what is outside of pods, which each
// series of a rule has.
func withoutPod(name string) string {
	for was := ""; was != name; {
		was, name = name, podLabel.ReplaceAllString(name, "$1")
	}
	if rest, ok := strings.CutSuffix(name, ",}"); ok {
		name = rest + "}"
	}
	return noLabels.ReplaceAllString(name, "$1")
}

// waitForSites waits until the metric of a rule is attached to the given number of sites.
func (e *exporter) waitForSites(metric string, sites float64) {
	e.t.Helper()
	e.waitForValue(fmt.Sprintf("stapsdt_attached_sites{metric=%q}", metric), sites)
}

func (e *exporter) waitForValue(series string, value float64) {
	e.t.Helper()
	require.Eventually(e.t, func() bool { return e.scrape()[series] == value }, testenv.Patience, 20*time.Millisecond, series)
}

// series returns the values of a metric by their labels.
func series(all map[string]float64, metric string) map[string]float64 {
	found := map[string]float64{}
	for name, value := range all {
		if rest, ok := strings.CutPrefix(name, metric); ok && (rest == "" || rest[0] == '{') {
			found[rest] = value
		}
	}
	return found
}

// startExported starts a program that has a provider of its own, and the exporter with rules about it.
func startExported(t testing.TB, rules string) (*tracetest.Process, *exporter) {
	t.Helper()
	provider := unique("exported")
	return startExportee(t, provider), startExporter(t, provider, rules)
}

// startExportee starts the program whose probes are counted.
func startExportee(t testing.TB, provider string) *tracetest.Process {
	t.Helper()
	return startGoSubject(t, "exportee", provider)
}

const saidRule = `
metrics:
  - name: said_total
    probe: PROVIDER:said
    counter: 1
    by: [text]
    labels: []
`

// imageDirectory returns the directory with the images of a process.
func imageDirectory(t *testing.T, p *tracetest.Process) string {
	environment := tracetest.Must(os.ReadFile("/proc/" + pid(p) + "/environ"))(t)
	directory := ""
	for entry := range strings.SplitSeq(string(environment), "\x00") {
		if value, ok := strings.CutPrefix(entry, "STAPSDT_DIR="); ok {
			directory = value
		}
	}
	require.NotEmpty(t, directory)
	return directory
}

// parse reads metrics with the parser of Prometheus's client for Python, and prints each family.
const parse = `
import sys
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics
text = sys.stdin.read()
read = openmetrics if sys.argv[1] == "openmetrics" else parser
for f in read.text_string_to_metric_families(text):
    print(f.type, f.name, len(f.samples), sum(1 for s in f.samples if s.exemplar))
`

// TestExportFormats: parsers that are not ours, and are stricter than Prometheus, read the whole
// of a scrape in each format.
func TestExportFormats(t *testing.T) {
	t.Parallel()
	const python = "/usr/bin/python3" // whose modules are Debian's
	testenv.Needs(t, "python3-prometheus-client", exec.Command(python, "-c", "import prometheus_client").Run())
	p, e := startExported(t, saidRule+`    series: 2
  - {name: said_bytes_total, probe: "PROVIDER:said", counter: bytes, unit: bytes, labels: [executable, container]}
  - {name: level, probe: "PROVIDER:level", gauge: depth, labels: []}
  - {name: size_bytes, probe: "PROVIDER:said", histogram: bytes, unit: bytes, buckets: [1, 2.5], labels: []}
  - {name: told_seconds, probe: "PROVIDER:job__end", histogram: nanoseconds, unit: seconds, labels: []}
  - {name: native_seconds, probe: "PROVIDER:job__end", histogram: nanoseconds, unit: seconds, buckets: native, labels: []}
  - {name: jobs_in_flight, start: "PROVIDER:job__start", end: "PROVIDER:job__end", in_flight: true, by: [name]}
`)
	e.waitForSites("jobs_in_flight", 2)
	e.waitForSites("said_total", 1)
	for _, line := range []string{`say "a"`, `say "b\"\\\n# EOF"`, `say "no room"`, "level -3", "job 2", "begin 1"} {
		tell(p, line)
	}
	for format, accept := range map[string]string{
		"openmetrics": "application/openmetrics-text;version=1.0.0", "text": "text/plain;version=0.0.4",
	} {
		t.Run(format, func(t *testing.T) {
			text := e.body(accept)
			cmd := exec.Command(python, "-c", parse, format)
			cmd.Stdin = strings.NewReader(text)
			out := runTool(t, cmd)
			for _, family := range []string{"counter said 3 0", "counter said_bytes 1 0", "gauge level 1 0", "histogram size_bytes 5 0", "gauge jobs_in_flight 3 0"} {
				require.Contains(t, string(out), family+"\n")
			}
			if format == "openmetrics" {
				require.Regexp(t, `histogram told_seconds \d+ [1-9]\n`, string(out), "with exemplars")
			}
		})
	}
	// The rules of promtool check metrics.
	problems, err := promlint.New(strings.NewReader(e.body("text/plain"))).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
}

// body returns the metrics in a format.
func (e *exporter) body(accept string) string {
	e.t.Helper()
	request := tracetest.Must(http.NewRequest(http.MethodGet, e.url, nil))(e.t)
	request.Header.Set("Accept", accept)
	response := tracetest.Must(http.DefaultClient.Do(request))(e.t)
	defer response.Body.Close()
	text := tracetest.Must(io.ReadAll(response.Body))(e.t)
	require.Equal(e.t, http.StatusOK, response.StatusCode)
	return string(text)
}
