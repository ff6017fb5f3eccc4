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
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// exporter is the command export.
type exporter struct {
	*tracetest.Process
	t     testing.TB
	rules string // the file
	url   string
}

// startExporter starts the exporter with rules, in which PROVIDER is the provider, and options.
func startExporter(t testing.TB, provider, rules string, options ...string) *exporter {
	t.Helper()
	testenv.NeedsRoot(t)
	e := &exporter{t: t, rules: filepath.Join(t.TempDir(), "rules.yaml")}
	e.writeRules(provider, rules)
	e.Process = tracetest.Command(t, exec.Command(stapsdt(t), append([]string{"export", "-c", e.rules, "--listen", "localhost:0"}, options...)...))
	e.waitUntilServing()
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
func (e *exporter) writeRules(provider, rules string) {
	e.t.Helper()
	text := strings.ReplaceAll(rules, "PROVIDER", provider)
	temp := e.rules + ".new"
	require.NoError(e.t, os.WriteFile(temp, []byte(text), 0o600))
	require.NoError(e.t, os.Rename(temp, e.rules))
}

// scrape returns the values of the series, by what is before them in a line.
func (e *exporter) scrape() map[string]float64 {
	e.t.Helper()
	response, err := http.Get(e.url)
	require.NoError(e.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(e.t, err)
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

// startExportee starts the program whose probes are counted.
func startExportee(t testing.TB, provider string, args ...string) *tracetest.Process {
	t.Helper()
	cmd := exec.Command(tracetest.Build(t, "exportee"), append([]string{provider}, args...)...)
	cmd.Env = append(os.Environ(), "STAPSDT_DIR="+t.TempDir())
	p := tracetest.Command(t, cmd)
	if len(args) == 0 {
		p.Expect("ready", testenv.Patience)
	}
	return p
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
	environment, err := os.ReadFile("/proc/" + pid(p) + "/environ")
	require.NoError(t, err)
	directory := ""
	for entry := range strings.SplitSeq(string(environment), "\x00") {
		if value, ok := strings.CutPrefix(entry, "STAPSDT_DIR="); ok {
			directory = value
		}
	}
	require.NotEmpty(t, directory)
	return directory
}
