//go:build linux

package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// The parts of a dashboard that are needed, by the names of Grafana's JSON model.
type (
	dashboard struct {
		Title         string     `json:"title"`
		Tags          []string   `json:"tags"`
		SchemaVersion int        `json:"schemaVersion"`
		Editable      bool       `json:"editable"`
		Refresh       string     `json:"refresh"`
		Time          timeRange  `json:"time"`
		Templating    templating `json:"templating"`
		Panels        []panel    `json:"panels"`
	}
	timeRange  struct{ From, To string }
	templating struct {
		List []variable `json:"list"`
	}
	variable struct {
		Name  string `json:"name"`
		Type  string `json:"type"`
		Query string `json:"query"`
	}
	source struct {
		Type string `json:"type"`
		UID  string `json:"uid"`
	}
	panel struct {
		ID          int         `json:"id"`
		Type        string      `json:"type"`
		Title       string      `json:"title"`
		Description string      `json:"description,omitempty"`
		GridPos     place       `json:"gridPos"`
		Datasource  source      `json:"datasource"`
		FieldConfig fieldConfig `json:"fieldConfig"`
		Targets     []query     `json:"targets"`
	}
	place struct {
		H int `json:"h"`
		W int `json:"w"`
		X int `json:"x"`
		Y int `json:"y"`
	}
	fieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
		Overrides []struct{} `json:"overrides"`
	}
	query struct {
		RefID        string `json:"refId"`
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
	}
)

// MarshalJSON writes the keys of a range of time as Grafana names them.
func (t timeRange) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"from":%q,"to":%q}`, t.From, t.To), nil
}

// Dashboard returns a dashboard for Grafana, in JSON: a panel for each metric, and four about
// the exporter.
func Dashboard(f *File) []byte {
	d := dashboard{
		Title: "stapsdt", Tags: []string{"stapsdt"}, SchemaVersion: 39, Editable: true, Refresh: "30s",
		Time:       timeRange{"now-1h", "now"},
		Templating: templating{[]variable{{"datasource", "datasource", "prometheus"}}},
	}
	for i := range f.Metrics {
		m := &f.Metrics[i]
		d.add(m.Name, m.Help, m.panelUnit(), m.queries()...)
	}
	own := []string{"metric", "instance"}
	d.add("Events", "Events that were counted, by metric.", "cps", sumQuery("A", own, "rate(stapsdt_events_total[$__rate_interval])"))
	d.add("Lost events and errors", "What was not counted, and what could not be attached.", "cps",
		sumQuery("A", append(own, "reason"), "rate(stapsdt_lost_events_total[$__rate_interval])"), sumQuery("B", own, "rate(stapsdt_errors_total[$__rate_interval])"))
	d.add("Attached sites", "Sites of probes that are attached, by metric.", "short", sumQuery("A", own, "stapsdt_attached_sites"))
	d.add("Series", "Combinations of labels, by metric.", "short", sumQuery("A", own, "stapsdt_series"))
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(d); err != nil {
		panic(err) // texts and numbers can be encoded
	}
	return text.Bytes()
}

// add adds a panel, two in a row.
func (d *dashboard) add(title, description, unit string, queries ...query) {
	const width, height = 12, 8
	n := len(d.Panels)
	p := panel{
		ID: n + 1, Type: "timeseries", Title: title, Description: description, GridPos: place{height, width, n % 2 * width, n / 2 * height},
		Datasource: source{"prometheus", "${datasource}"}, Targets: queries,
	}
	p.FieldConfig.Defaults.Unit, p.FieldConfig.Overrides = unit, []struct{}{}
	d.Panels = append(d.Panels, p)
}

// sumQuery is a query for a sum by labels, which are the legend.
func sumQuery(id string, labels []string, vector string) query {
	var legend []string
	for _, l := range labels {
		legend = append(legend, "{{"+l+"}}")
	}
	return query{id, by(labels, vector), strings.Join(legend, " ")}
}

// queries returns what the panel of a metric shows: rates, values, or quantiles.
func (m *Metric) queries() (all []query) {
	const window = "$__rate_interval"
	switch m.Kind {
	case Counter:
		return []query{sumQuery("A", m.labelNames(), fmt.Sprintf("rate(%s[%s])", m.Name, window))}
	case Gauge, InFlight:
		return []query{sumQuery("A", m.labelNames(), m.Name)}
	}
	legend := ""
	for _, l := range m.programs() {
		legend = " {{" + l + "}}"
	}
	for i, q := range []float64{0.5, 0.9, 0.99} {
		all = append(all, query{string(rune('A' + i)), m.quantile(q, window), fmt.Sprintf("p%v%s", 100*q, legend)})
	}
	return all
}

// panelUnit returns the name that Grafana has for the unit of what the panel shows.
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
