//go:build linux

package expose

import (
	"context"
	"encoding/hex"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
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
			adapt(metric.Data)
		}
	}
	return scopes, err
}

// adapt makes of data for Prometheus what OpenTelemetry expects.
func adapt(data metricdata.Aggregation) {
	switch data := data.(type) {
	case metricdata.Sum[float64]:
		for i := range data.DataPoints {
			adaptOverflow(&data.DataPoints[i].Attributes)
		}
	case metricdata.Gauge[float64]:
		for i := range data.DataPoints {
			adaptOverflow(&data.DataPoints[i].Attributes)
		}
	case metricdata.Histogram[float64]:
		for i := range data.DataPoints {
			adaptOverflow(&data.DataPoints[i].Attributes)
			decodeSpanIDs(data.DataPoints[i].Exemplars)
		}
	case metricdata.ExponentialHistogram[float64]:
		for i := range data.DataPoints {
			adaptOverflow(&data.DataPoints[i].Attributes)
		}
	}
}

// adaptOverflow replaces the label of what is beyond a bound by the attribute of the SDK.
func adaptOverflow(set *attribute.Set) {
	if set.HasValue(overflowLabel) {
		*set = attribute.NewSet(attribute.Bool("otel.metric.overflow", true))
	}
}

// decodeSpanIDs makes span ids of 8 bytes of those in hexadecimal, as which the bridge leaves
// them. A collector refuses a whole request because of one of these.
func decodeSpanIDs(exemplars []metricdata.Exemplar[float64]) {
	for i := range exemplars {
		id, err := hex.DecodeString(string(exemplars[i].SpanID))
		if err != nil {
			id = nil
		}
		exemplars[i].SpanID = id
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
