//go:build linux

package rules

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"

	"go.yaml.in/yaml/v3"
)

type (
	alertFile struct {
		Groups []alertGroup `yaml:"groups"`
	}
	alertGroup struct {
		Name  string  `yaml:"name"`
		Rules []alert `yaml:"rules"`
	}
	alert struct {
		Alert       string            `yaml:"alert"`
		Expr        string            `yaml:"expr"`
		For         string            `yaml:"for"`
		Labels      map[string]string `yaml:"labels"`
		Annotations map[string]string `yaml:"annotations"`
	}
)

func newAlert(name, expr, after, summary string) alert {
	return alert{name, expr, after, map[string]string{"severity": "warning"}, map[string]string{"summary": summary}}
}

const alertsHead = `# Alerting rules for Prometheus, for what stapsdt export shows.
# Those of the first group are about the exporter. Those of the second are examples that
# follow from the rules: edit what they compare with.
`

// Alerts returns a file of alerting rules for Prometheus, in YAML.
func Alerts(f *File) []byte {
	file := alertFile{[]alertGroup{{Name: "stapsdt", Rules: f.ownAlerts()}}}
	var examples []alert
	for i := range f.Metrics {
		examples = append(examples, f.Metrics[i].alerts()...)
	}
	if len(examples) > 0 {
		file.Groups = append(file.Groups, alertGroup{Name: "stapsdt-metrics", Rules: examples})
	}
	text := bytes.NewBufferString(alertsHead)
	encoder := yaml.NewEncoder(text)
	encoder.SetIndent(2)
	if err := encoder.Encode(file); err != nil {
		panic(err) // strings and lists can be encoded
	}
	return text.Bytes()
}

func (f *File) ownAlerts() []alert {
	all := []alert{
		newAlert("StapsdtAbsent", "absent(stapsdt_rules_reload_success)", "5m", "No machine runs stapsdt export, or Prometheus cannot reach it."),
		newAlert("StapsdtRulesRefused", "stapsdt_rules_reload_success == 0", "5m", "The rules file on {{ $labels.instance }} is wrong, so the earlier rules stay in force."),
		newAlert("StapsdtErrors", "increase(stapsdt_errors_total[10m]) > 0", "0m", "Probes of {{ $labels.metric }} on {{ $labels.instance }} could not be attached or read."),
		newAlert("StapsdtEventsLost", "increase(stapsdt_lost_events_total[10m]) > 0", "0m", "Events of {{ $labels.metric }} on {{ $labels.instance }} were lost: {{ $labels.reason }}."),
		newAlert("StapsdtNothingAttached", "sum by (metric) (stapsdt_attached_sites) == 0", "30m", "No process on any machine has the probes of {{ $labels.metric }}."),
	}
	bounded := map[int][]string{} // the names of the metrics, by their maximum number of series
	for _, m := range f.Metrics {
		bounded[m.Series] = append(bounded[m.Series], m.Name)
	}
	for _, bound := range slices.Sorted(maps.Keys(bounded)) {
		expr := fmt.Sprintf(`stapsdt_series{metric=~"%s"} >= %d`, strings.Join(bounded[bound], "|"), bound)
		all = append(all, newAlert(fmt.Sprintf("StapsdtSeries%d", bound), expr, "5m", "{{ $labels.metric }} on {{ $labels.instance }} has used all of its series, so others are counted as otel_metric_overflow."))
	}
	if len(f.Spans) > 0 {
		all = append(all, newAlert("StapsdtSpansDropped", "increase(stapsdt_export_otlp_spans_total{result!=\"sent\"}[10m]) > 0", "0m", "Spans of {{ $labels.instance }} did not get into the collector: {{ $labels.result }}."))
	}
	return all
}

func (m *Metric) alerts() (all []alert) {
	const window = "5m"
	of, name := "", text.Camel(m.Name)
	if len(m.programs()) > 0 {
		of = " of {{ $labels.executable }}"
	}
	if (m.Kind == Histogram || m.Kind == Duration) && m.Unit == "seconds" {
		limit := m.limit()
		all = append(all, newAlert(name+"Slow", fmt.Sprintf("%s > %v", m.quantile(0.99, window), limit), "10m",
			fmt.Sprintf("One in a hundred%s takes more than %v s: %s.", of, limit, m.Name)))
	}
	if events := m.events(); events != "" && m.failures() != "" {
		failed := by(m.programs(), fmt.Sprintf("rate(%s{%s}[%s])", events, m.failures(), window))
		every := by(m.programs(), fmt.Sprintf("rate(%s[%s])", events, window))
		all = append(all, newAlert(name+"Failing", failed+" / "+every+" > 0.05", "10m", fmt.Sprintf("More than one in twenty%s fails: %s.", of, m.Name)))
	} else if events != "" && m.allFailures() {
		rate := by(m.programs(), fmt.Sprintf("rate(%s[%s])", events, window))
		all = append(all, newAlert(name+"Failing", rate+" > 0.1", "10m", fmt.Sprintf("There are more than six failures%s a minute: %s.", of, m.Name)))
	}
	if m.Kind == InFlight {
		all = append(all, newAlert(name+"Piling", by(m.programs(), m.Name)+" > 100", "10m", fmt.Sprintf("More than 100 operations%s have not ended: %s.", of, m.Name)))
	}
	return all
}

// limit returns the bound with which an alert compares a quantile: 1, or the nearest bound below it, because no
// quantile is above the last bound.
func (m *Metric) limit() float64 {
	limit := 1.0
	for _, bound := range m.Bounds {
		if bound <= 1 {
			limit = bound
		}
	}
	if last := len(m.Bounds) - 1; last > 0 && m.Bounds[last] <= limit {
		limit = m.Bounds[last-1]
	}
	return limit
}
