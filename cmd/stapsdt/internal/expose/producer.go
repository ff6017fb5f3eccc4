//go:build linux

package expose

import (
	"context"
	"encoding/hex"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// producer gives the SDK of OpenTelemetry the same metrics as /metrics shows.
type producer struct{ *Metrics }

// Produce converts the metrics.
func (p *producer) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	families, err := p.Gather()
	if err != nil {
		return nil, err
	}
	units := map[string]string{}
	for _, family := range families {
		units[family.GetName()] = unit(family)
	}
	gathered := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return families, nil })
	scopes, err := bridge.NewMetricProducer(bridge.WithGatherer(gathered)).Produce(ctx)
	for _, scope := range scopes {
		for i := range scope.Metrics {
			metric := &scope.Metrics[i]
			metric.Unit = units[metric.Name]
			if histogram, ok := metric.Data.(metricdata.Histogram[float64]); ok {
				decodeSpanIDs(histogram)
			}
		}
	}
	return scopes, err
}

// decodeSpanIDs makes span ids of 8 bytes of those in hexadecimal, as which the bridge leaves
// them. A collector refuses everything that comes with such a one.
func decodeSpanIDs(histogram metricdata.Histogram[float64]) {
	for _, point := range histogram.DataPoints {
		for i := range point.Exemplars {
			e := &point.Exemplars[i]
			id, err := hex.DecodeString(string(e.SpanID))
			if err != nil {
				id = nil
			}
			e.SpanID = id
		}
	}
}

// codes are what UCUM, whose codes OpenTelemetry takes, calls the units of Prometheus.
var codes = map[string]string{
	"seconds": "s", "bytes": "By", "ratio": "1", "meters": "m", "grams": "g", "joules": "J", "volts": "V", "amperes": "A", "celsius": "Cel",
}

// unit returns the unit of a family by UCUM: an annotation if UCUM has none, and "" if it is not
// known. The exporter's own metrics have it in their names only.
func unit(family *dto.MetricFamily) string {
	name := family.GetUnit()
	if name == "" {
		base := strings.TrimSuffix(family.GetName(), "_total")
		return codes[base[strings.LastIndexByte(base, '_')+1:]]
	}
	if code := codes[name]; code != "" {
		return code
	}
	return "{" + name + "}"
}
