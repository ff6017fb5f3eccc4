//go:build linux && (amd64 || arm64)

package fleet

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	os.Setenv("CGO_ENABLED", "0") // as the command is distributed
	tracetest.BuildMain(m)
}

// exporter is the command export.
type exporter struct {
	*tracetest.Process
	addr string // where it answers
}

// exports starts the exporter with rules, in which PROVIDER is the provider.
func exports(t testing.TB, provider, rules, listen string, args ...string) *exporter {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(rules, "PROVIDER", provider)), 0o600))
	cmd := exec.Command(tracetest.Stapsdt(t), append([]string{"export", "-c", path, "--listen", listen}, args...)...)
	cmd.Env = append(os.Environ(), "OTEL_METRIC_EXPORT_INTERVAL=200")
	e := &exporter{Process: tracetest.Command(t, cmd)}
	e.addr = e.WaitSaid(regexp.MustCompile(`metrics are at https?://(\S+)/metrics`), testenv.Patience)[1]
	return e
}

// fires starts a program that fires what it is told to.
func fires(t testing.TB, provider string) *tracetest.Process {
	t.Helper()
	cmd := exec.Command(tracetest.Build(t, "../command/subject"), "exportee", provider)
	cmd.Env = append(os.Environ(), "STAPSDT_DIR="+t.TempDir())
	p := tracetest.Command(t, cmd)
	p.Expect("ready", testenv.Patience)
	return p
}

// does tells a program something and waits until it is done.
func does(p *tracetest.Process, lines ...string) {
	for _, line := range lines {
		p.Say(line)
		p.Expect("ok", testenv.Patience)
	}
}

// needs says what all tests need.
func needs(t testing.TB, reason string) {
	t.Helper()
	testenv.NeedsRoot(t)
	testenv.Long(t, reason)
}

// rules are for each kind of metric.
const rules = `
metrics:
  - {name: said_total, probe: "PROVIDER:said", counter: 1, by: [text], labels: []}
  - {name: said_size_bytes, probe: "PROVIDER:said", histogram: bytes, unit: bytes, buckets: [1, 2.5, 4], labels: []}
  - {name: level, probe: "PROVIDER:level", gauge: depth, labels: []}
  - {name: jobs_in_flight, start: "PROVIDER:job__start", end: "PROVIDER:job__end", in_flight: true, labels: []}
  - {name: job_seconds, probe: "PROVIDER:job__end", histogram: nanoseconds, unit: seconds, buckets: [0.0001, 1000], labels: []}
  - {name: job_native_seconds, probe: "PROVIDER:job__end", histogram: nanoseconds, unit: seconds, buckets: native, labels: []}
`

// attached are the sites to which an exporter attaches by these rules.
var attached = map[string]float64{
	`{metric="said_total"}`: 1, `{metric="said_size_bytes"}`: 1, `{metric="level"}`: 1,
	`{metric="jobs_in_flight"}`: 2, `{metric="job_seconds"}`: 1, `{metric="job_native_seconds"}`: 1,
}
