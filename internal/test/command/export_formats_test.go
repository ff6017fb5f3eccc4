//go:build linux && (amd64 || arm64)

package command_test

import (
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

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
	p := startExportee(t, "export_formats")
	e := startExporter(t, "export_formats", saidRule+`    series: 2
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
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			for _, family := range []string{"counter said 3 0", "counter said_bytes 1 0", "gauge level 1 0", "histogram size_bytes 5 0", "gauge jobs_in_flight 3 0"} {
				require.Contains(t, string(out), family+"\n")
			}
			if format == "openmetrics" {
				require.Regexp(t, `histogram told_seconds \d+ [1-9]\n`, string(out), "with exemplars")
			}
		})
	}
	promtool := testenv.NeedsTool(t, "promtool", "prometheus")
	cmd := exec.Command(promtool, "check", "metrics")
	cmd.Stdin = strings.NewReader(e.body("text/plain"))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
}

// body returns the metrics in a format.
func (e *exporter) body(accept string) string {
	e.t.Helper()
	request, err := http.NewRequest(http.MethodGet, e.url, nil)
	require.NoError(e.t, err)
	request.Header.Set("Accept", accept)
	response, err := http.DefaultClient.Do(request)
	require.NoError(e.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(e.t, err)
	require.Equal(e.t, http.StatusOK, response.StatusCode)
	return string(text)
}
