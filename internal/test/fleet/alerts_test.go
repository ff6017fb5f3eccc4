//go:build linux && (amd64 || arm64)

package fleet

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// promtool runs Prometheus's checker in a directory with these files.
func promtool(t *testing.T, files map[string]string, args ...string) {
	t.Helper()
	testenv.Long(t, "Prometheus is a server, which is installed for the long tests")
	tool := testenv.NeedsTool(t, "promtool", "prometheus")
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	cmd := exec.Command(tool, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%v\n%s", cmd, out)
}

// TestAlerts: the alerts fire for slow and failing requests and for the exporter's troubles, and not
// otherwise, as Prometheus evaluates them.
func TestAlerts(t *testing.T) {
	const cases = `
rule_files: [alerts.yaml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'http_server_request_seconds_bucket{executable="slow", status="200", le="1"}', values: '0+0x60'}
      - {series: 'http_server_request_seconds_bucket{executable="slow", status="200", le="2.5"}', values: '0+60x60'}
      - {series: 'http_server_request_seconds_bucket{executable="slow", status="200", le="+Inf"}', values: '0+60x60'}
      - {series: 'http_server_request_seconds_bucket{executable="fast", status="200", le="1"}', values: '0+60x60'}
      - {series: 'http_server_request_seconds_bucket{executable="fast", status="200", le="+Inf"}', values: '0+60x60'}
      - {series: 'http_server_request_seconds_count{executable="bad", status="503"}', values: '0+6x60'}
      - {series: 'http_server_request_seconds_count{executable="bad", status="200"}', values: '0+54x60'}
      - {series: 'http_server_request_seconds_count{executable="good", status="503"}', values: '0+1x60'}
      - {series: 'http_server_request_seconds_count{executable="good", status="200"}', values: '0+59x60'}
      - {series: 'full_total{instance="i", otel_metric_overflow="true"}', values: '0+1x60'}
      - {series: 'full_total{instance="i", route="/"}', values: '0+1x60'}
      - {series: 'stapsdt_rules_reload_success{instance="i"}', values: '0x60'}
      - {series: 'stapsdt_lost_events_total{instance="i", metric="m", reason="full"}', values: '0+1x60'}
      - {series: 'stapsdt_attached_sites{instance="i", metric="lacks"}', values: '0x60'}
      - {series: 'stapsdt_attached_sites{instance="j", metric="lacks"}', values: '0x60'}
      - {series: 'stapsdt_attached_sites{instance="i", metric="has"}', values: '0x60'}
      - {series: 'stapsdt_attached_sites{instance="j", metric="has"}', values: '1x60'}
      - {series: 'stapsdt_errors_total{instance="i", metric="m"}', values: '0x60'}
      - {series: 'stapsdt_export_otlp_spans_total{instance="i", result="sent"}', values: '0+1x60'}
      - {series: 'stapsdt_export_otlp_spans_total{instance="i", result="refused"}', values: '0+1x60'}
    alert_rule_test:
      - {eval_time: 40m, alertname: StapsdtAbsent}
      - {eval_time: 40m, alertname: StapsdtErrors}
      - {eval_time: 40m, alertname: StapsdtNothingAttached, exp_alerts: [{exp_labels: {severity: warning, metric: lacks}, exp_annotations: {summary: "No process on any machine has the probes of lacks."}}]}
      - {eval_time: 40m, alertname: StapsdtRulesRefused, exp_alerts: [{exp_labels: {severity: warning, instance: i}, exp_annotations: {summary: "The rules file on i is wrong, so the earlier rules stay in force."}}]}
      - {eval_time: 40m, alertname: StapsdtEventsLost, exp_alerts: [{exp_labels: {severity: warning, instance: i, metric: m, reason: full}, exp_annotations: {summary: "Events of m on i were lost: full."}}]}
      - {eval_time: 40m, alertname: StapsdtSeriesFull, exp_alerts: [{exp_labels: {severity: warning, instance: i, metric: full_total}, exp_annotations: {summary: "full_total on i has used all of its series, so others are counted as otel_metric_overflow."}}]}
      - {eval_time: 40m, alertname: StapsdtSpansDropped, exp_alerts: [{exp_labels: {severity: warning, instance: i, result: refused}, exp_annotations: {summary: "Spans of i did not get into the collector: refused."}}]}
      - {eval_time: 40m, alertname: RequestsSlow, exp_alerts: [{exp_labels: {severity: warning, executable: slow}, exp_annotations: {summary: "One in a hundred requests of slow takes more than 1 s."}}]}
      - {eval_time: 40m, alertname: RequestsFailing, exp_alerts: [{exp_labels: {severity: warning, executable: bad}, exp_annotations: {summary: "More than one in twenty requests of bad fails."}}]}
  - interval: 1m
    alert_rule_test:
      - {eval_time: 10m, alertname: StapsdtAbsent, exp_alerts: [{exp_labels: {severity: warning}, exp_annotations: {summary: "No machine runs stapsdt export, or Prometheus cannot reach it."}}]}
`
	files := map[string]string{"alerts.yaml": packaged(t, "alerts.yaml"), "cases.yaml": cases}
	promtool(t, files, "check", "rules", "alerts.yaml")
	promtool(t, files, "test", "rules", "cases.yaml")
}

// TestDashboard: the panels have places of their own, and Prometheus's checker accepts each query.
func TestDashboard(t *testing.T) {
	var d struct {
		Panels []struct {
			ID      int
			GridPos struct{ X, Y int }
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(packaged(t, "dashboard.json")), &d))
	require.NotEmpty(t, d.Panels)
	variables := strings.NewReplacer(
		"$__rate_interval", "1m", "$counter", "a_total", "${histogram}", "b_seconds",
	)
	var queries strings.Builder
	queries.WriteString("groups: [{name: queries, rules: [\n")
	places := map[struct{ X, Y int }]bool{}
	for i, p := range d.Panels {
		require.Equal(t, i+1, p.ID)
		require.False(t, places[p.GridPos], "panel %d: %+v", i, p)
		require.NotEmpty(t, p.Targets, "panel %d: %+v", i, p)
		places[p.GridPos] = true
		for _, q := range p.Targets {
			expr := variables.Replace(q.Expr)
			require.NotContains(t, expr, "$")
			quoted, _ := json.Marshal(expr)
			queries.WriteString("{record: 'a:b', expr: " + string(quoted) + "},\n")
		}
	}
	queries.WriteString("]}]\n")
	promtool(t, map[string]string{"queries.yaml": queries.String()}, "check", "rules", "queries.yaml")
}
