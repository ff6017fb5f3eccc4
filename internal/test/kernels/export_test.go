//go:build linux && (amd64 || arm64)

package kernels

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"

	"github.com/stretchr/testify/require"
)

// exportRules have a metric of each kind of program.
const exportRules = `
metrics:
  - name: events_total
    probe: guestserver:request__done
    counter: 1
    where: status != 99 && uid == 0 && executable == %[1]q
    by: [cached]
    labels: [container]
  - name: elapsed_seconds
    probe: guestserver:request__done
    histogram: elapsed
    unit: seconds
    scale: 1e-9
    buckets: native
    where: status != 99
    labels: []
  - name: jobs_in_flight
    start: guestjobs:job__start
    end: guestjobs:job__end
    key: thread
    in_flight: true
    labels: [executable]
`

// TestCommandExport: Prometheus gets what was fired, by who fired it.
func TestCommandExport(t *testing.T) {
	testedBy(t, "command")
	executable, err := os.Executable()
	require.NoError(t, err)
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(rules, fmt.Appendf(nil, exportRules, filepath.Base(executable)), 0o600))
	server := startServer(t)
	exporter := tracetest.Command(t, exec.Command(commandPath(t), "export", "-c", rules, "--listen", "127.0.0.1:0"))
	await(t, "the command to attach", exporter, func() bool { return enabled(server, "first") })
	url := exporter.WaitSaid(regexp.MustCompile(`http://\S+/metrics`), starting)[0]
	require.True(t, enabled(server, "all"))
	response, err := http.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	var sum time.Duration
	for _, r := range requests() {
		sum += r.elapsed
	}
	n := len(requests())
	for _, line := range []string{
		fmt.Sprintf(`events_total{cached="true",container="",namespace="",pod=""} %d`, n/2),
		fmt.Sprintf(`events_total{cached="false",container="",namespace="",pod=""} %d`, n/2),
		fmt.Sprintf(`elapsed_seconds_count{container="",namespace="",pod=""} %d`, n),
		fmt.Sprintf(`elapsed_seconds_sum{container="",namespace="",pod=""} %v`, sum.Seconds()),
		`stapsdt_lost_events_total{metric="events_total",reason="unevaluated"} 0`,
		`stapsdt_errors_total{metric="jobs_in_flight"} 0`,
	} {
		require.Contains(t, strings.Split(string(text), "\n"), line)
	}
}
