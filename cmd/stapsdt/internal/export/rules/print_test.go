//go:build linux

package rules

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func parsed(t *testing.T, text string) *File {
	t.Helper()
	file, err := Parse("rules.yaml", []byte(text))
	require.NoError(t, err)
	return file
}

// promtool runs Prometheus's checker in a directory with a file of alerts.
func promtool(t *testing.T, alerts []byte, files map[string]string, args ...string) {
	t.Helper()
	testenv.Long(t, "Prometheus is a server, which is installed for the long tests")
	tool := testenv.NeedsTool(t, "promtool", "prometheus")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "alerts.yaml"), alerts, 0o600))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	cmd := exec.Command(tool, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	assert.NoError(t, err, "%v\n%s\n%s", cmd, out, alerts)
}

// TestAlerts: Prometheus's own checker accepts them, and they are the same each time.
func TestAlerts(t *testing.T) {
	for name, text := range map[string]string{"everything": everything, "no metrics": "metrics: []\n", "one span": "spans: [{probe: 'a:b'}]\n"} {
		t.Run(name, func(t *testing.T) {
			alerts := Alerts(parsed(t, text))
			assert.Equal(t, Alerts(parsed(t, text)), alerts, "they differ from one time to the next")
			promtool(t, alerts, nil, "check", "rules", "alerts.yaml")
		})
	}
}

// TestAlertsFire: Prometheus's evaluation of them fires for slow and failing requests, and for
// the exporter's troubles, and not otherwise.
func TestAlertsFire(t *testing.T) {
	const rules = `
metrics:
  - {name: shop_request_seconds, probe: "shop:request__end", histogram: ns, unit: seconds, by: [status]}
  - {name: shop_in_flight, start: "shop:query__start", end: "shop:query__end", in_flight: true, series: 10}
  - {name: shop_errors_total, probe: "shop:error", counter: 1}
`
	const cases = `
rule_files: [alerts.yaml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'shop_request_seconds_bucket{executable="slow", status="200", le="1"}', values: '0+0x60'}
      - {series: 'shop_request_seconds_bucket{executable="slow", status="200", le="2.5"}', values: '0+60x60'}
      - {series: 'shop_request_seconds_bucket{executable="slow", status="200", le="+Inf"}', values: '0+60x60'}
      - {series: 'shop_request_seconds_bucket{executable="fast", status="200", le="1"}', values: '0+60x60'}
      - {series: 'shop_request_seconds_bucket{executable="fast", status="200", le="+Inf"}', values: '0+60x60'}
      - {series: 'shop_request_seconds_count{executable="bad", status="503"}', values: '0+6x60'}
      - {series: 'shop_request_seconds_count{executable="bad", status="200"}', values: '0+54x60'}
      - {series: 'shop_request_seconds_count{executable="good", status="503"}', values: '0+1x60'}
      - {series: 'shop_request_seconds_count{executable="good", status="200"}', values: '0+59x60'}
      - {series: 'shop_errors_total{executable="shop"}', values: '0+60x60'}
      - {series: 'shop_in_flight{executable="shop"}', values: '101x60'}
      - {series: 'stapsdt_rules_reload_success{instance="i"}', values: '0x60'}
      - {series: 'stapsdt_series{instance="i", metric="shop_in_flight"}', values: '10x60'}
      - {series: 'stapsdt_series{instance="i", metric="shop_request_seconds"}', values: '999x60'}
      - {series: 'stapsdt_lost_events_total{instance="i", metric="m", reason="busy"}', values: '0+1x60'}
      - {series: 'stapsdt_attached_sites{instance="i", metric="shop_in_flight"}', values: '0x60'}
      - {series: 'stapsdt_attached_sites{instance="j", metric="shop_in_flight"}', values: '0x60'}
      - {series: 'stapsdt_attached_sites{instance="i", metric="shop_request_seconds"}', values: '0x60'}
      - {series: 'stapsdt_attached_sites{instance="j", metric="shop_request_seconds"}', values: '1x60'}
      - {series: 'stapsdt_errors_total{instance="i", metric="m"}', values: '0x60'}
    alert_rule_test:
      - {eval_time: 40m, alertname: StapsdtAbsent}
      - {eval_time: 40m, alertname: StapsdtErrors}
      - {eval_time: 40m, alertname: StapsdtSeries1000}
      - {eval_time: 40m, alertname: StapsdtNothingAttached, exp_alerts: [{exp_labels: {severity: warning, metric: shop_in_flight}, exp_annotations: {summary: "No process on any machine has the probes of shop_in_flight."}}]}
      - {eval_time: 40m, alertname: StapsdtRulesRefused, exp_alerts: [{exp_labels: {severity: warning, instance: i}, exp_annotations: {summary: "The rules file on i is wrong, so the earlier rules stay in force."}}]}
      - {eval_time: 40m, alertname: StapsdtEventsLost, exp_alerts: [{exp_labels: {severity: warning, instance: i, metric: m, reason: busy}, exp_annotations: {summary: "Events of m on i were lost: busy."}}]}
      - {eval_time: 40m, alertname: StapsdtSeries10, exp_alerts: [{exp_labels: {severity: warning, instance: i, metric: shop_in_flight}, exp_annotations: {summary: "shop_in_flight on i has used all of its series, so others are counted as otel_metric_overflow."}}]}
      - {eval_time: 40m, alertname: ShopRequestSecondsSlow, exp_alerts: [{exp_labels: {severity: warning, executable: slow}, exp_annotations: {summary: "One in a hundred of slow takes more than 1 s: shop_request_seconds."}}]}
      - {eval_time: 40m, alertname: ShopRequestSecondsFailing, exp_alerts: [{exp_labels: {severity: warning, executable: bad}, exp_annotations: {summary: "More than one in twenty of bad fails: shop_request_seconds."}}]}
      - {eval_time: 40m, alertname: ShopErrorsTotalFailing, exp_alerts: [{exp_labels: {severity: warning, executable: shop}, exp_annotations: {summary: "There are more than six failures of shop a minute: shop_errors_total."}}]}
      - {eval_time: 40m, alertname: ShopInFlightPiling, exp_alerts: [{exp_labels: {severity: warning, executable: shop}, exp_annotations: {summary: "More than 100 operations of shop have not ended: shop_in_flight."}}]}
  - interval: 1m
    alert_rule_test:
      - {eval_time: 10m, alertname: StapsdtAbsent, exp_alerts: [{exp_labels: {severity: warning}, exp_annotations: {summary: "No machine runs stapsdt export, or Prometheus cannot reach it."}}]}
`
	promtool(t, Alerts(parsed(t, rules)), map[string]string{"cases.yaml": cases}, "test", "rules", "cases.yaml")
}

// TestDashboard: it is JSON, has a panel for each metric, and Prometheus's checker accepts each
// query.
func TestDashboard(t *testing.T) {
	file := parsed(t, everything)
	text := Dashboard(file)
	assert.Equal(t, Dashboard(parsed(t, everything)), text, "it differs from one time to the next")
	var d struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y int }
			Targets []panelQuery
		}
	}
	require.NoError(t, json.Unmarshal(text, &d))
	assert.Len(t, d.Panels, len(file.Metrics)+4)
	var queries strings.Builder
	queries.WriteString("groups: [{name: queries, rules: [\n")
	places := map[struct{ X, Y int }]bool{}
	for i, p := range d.Panels {
		if i < len(file.Metrics) {
			assert.Equal(t, file.Metrics[i].Name, p.Title, "panel %d: %+v", i, p)
		}
		assert.Equal(t, i+1, p.ID, "panel %d: %+v", i, p)
		assert.False(t, places[p.GridPos], "panel %d: %+v", i, p)
		assert.NotEmpty(t, p.Targets, "panel %d: %+v", i, p)
		places[p.GridPos] = true
		for _, q := range p.Targets {
			quoted, _ := json.Marshal(strings.ReplaceAll(q.Expr, "$__rate_interval", "1m"))
			queries.WriteString("{record: 'a:" + strings.ToLower(q.RefID) + string(rune('a'+i)) + "', expr: " + string(quoted) + "},\n")
		}
	}
	queries.WriteString("]}]\n")
	promtool(t, []byte(queries.String()), nil, "check", "rules", "alerts.yaml")
}
