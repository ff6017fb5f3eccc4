//go:build linux

package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// object is an object of Grafana's JSON model.
type object = map[string]any

// panelQuery is a query of a panel.
type panelQuery struct {
	RefID        string `json:"refId"`
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat"`
}

// Dashboard returns a dashboard for Grafana, in JSON: a panel for each metric, and four panels about the exporter.
func Dashboard(f *File) []byte {
	var panels []object
	add := func(title, description, unit string, queries ...panelQuery) { // two panels in a row
		const width, height = 12, 8
		n := len(panels)
		panels = append(panels, object{
			"id": n + 1, "type": "timeseries", "title": title, "description": description, "targets": queries,
			"gridPos":    object{"h": height, "w": width, "x": n % 2 * width, "y": n / 2 * height},
			"datasource": object{"type": "prometheus", "uid": "${datasource}"}, "fieldConfig": object{"defaults": object{"unit": unit}, "overrides": []object{}},
		})
	}
	for i := range f.Metrics {
		m := &f.Metrics[i]
		add(m.Name, m.Help, m.panelUnit(), m.queries()...)
	}
	own := []string{"metric", "instance"}
	add("Events", "Events that were counted, by metric.", "cps", sumQuery("A", own, "rate(stapsdt_events_total[$__rate_interval])"))
	add("Lost events and errors", "What was not counted, and what could not be attached.", "cps",
		sumQuery("A", append(own, "reason"), "rate(stapsdt_lost_events_total[$__rate_interval])"), sumQuery("B", own, "rate(stapsdt_errors_total[$__rate_interval])"))
	add("Attached sites", "Sites of probes that are attached, by metric.", "short", sumQuery("A", own, "stapsdt_attached_sites"))
	add("Series", "Combinations of labels, by metric.", "short", sumQuery("A", own, "stapsdt_series"))
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(object{
		"title": "stapsdt", "tags": []string{"stapsdt"}, "schemaVersion": 39, "editable": true, "refresh": "30s", "panels": panels,
		"time": object{"from": "now-1h", "to": "now"}, "templating": object{"list": []object{{"name": "datasource", "type": "datasource", "query": "prometheus"}}},
	})
	if err != nil {
		panic(err) // strings and numbers can be encoded
	}
	return text.Bytes()
}

// sumQuery returns a query for a sum by labels. The legend has the labels.
func sumQuery(id string, labels []string, vector string) panelQuery {
	var legend []string
	for _, l := range labels {
		legend = append(legend, "{{"+l+"}}")
	}
	return panelQuery{id, by(labels, vector), strings.Join(legend, " ")}
}

// queries returns the queries of a metric's panel: rates, values, or quantiles.
func (m *Metric) queries() (all []panelQuery) {
	const window = "$__rate_interval"
	switch m.Kind {
	case Counter:
		return []panelQuery{sumQuery("A", m.labelNames(), fmt.Sprintf("rate(%s[%s])", m.Name, window))}
	case Gauge, InFlight:
		return []panelQuery{sumQuery("A", m.labelNames(), m.Name)}
	}
	legend := ""
	for _, l := range m.programs() {
		legend = " {{" + l + "}}"
	}
	for i, q := range []float64{0.5, 0.9, 0.99} {
		id, name := string(rune('A'+i)), fmt.Sprintf("p%v%s", 100*q, legend)
		all = append(all, panelQuery{id, m.quantile(q, window), name})
	}
	return all
}

// panelUnit returns Grafana's name for the unit of the panel.
func (m *Metric) panelUnit() string {
	switch {
	case m.Kind == Counter && m.Unit == "bytes":
		return "binBps"
	case m.Kind == Counter && m.Unit == "":
		return "cps"
	case m.Unit == "seconds" && m.Kind != Counter:
		return "s"
	case m.Unit == "bytes":
		return "bytes"
	}
	return "short"
}
