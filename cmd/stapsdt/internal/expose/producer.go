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
type producer struct {
	*Metrics
	// containers are the metrics of containers, which follow those of the exporter's resource.
	containers []containerMetrics
}

// Produce converts the metrics: it returns those that belong to the exporter's resource, and keeps those of
// containers.
func (p *producer) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	rest, of := divide(p.collect())
	p.containers = p.containers[:0]
	for _, c := range of {
		scopes, err := produce(ctx, p.convert(c.families))
		if err != nil {
			return nil, err
		}
		p.containers = append(p.containers, containerMetrics{c.of, scopes})
	}
	return produce(ctx, p.withOwn(p.convert(rest)))
}

// produce converts families, which are sorted.
func produce(ctx context.Context, families []*dto.MetricFamily) ([]metricdata.ScopeMetrics, error) {
	of := map[string]*dto.MetricFamily{}
	for _, family := range families {
		of[family.GetName()] = family
	}
	gathered := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return families, nil })
	scopes, err := bridge.NewMetricProducer(bridge.WithGatherer(gathered)).Produce(ctx)
	for _, scope := range scopes {
		for i := range scope.Metrics {
			metric := &scope.Metrics[i]
			family := of[metric.Name]
			metric.Unit = unit(family)
			adapt(metric.Data, family)
		}
	}
	return scopes, err
}

// adapt converts Prometheus data to OpenTelemetry's conventions. The points are in the order of the
// metric's series.
func adapt(data metricdata.Aggregation, family *dto.MetricFamily) {
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
			// The bridge leaves the ids of spans in hexadecimal. A collector refuses a whole request
			// because of one of these.
			for n := range data.DataPoints[i].Exemplars {
				e := &data.DataPoints[i].Exemplars[n]
				e.SpanID = decoded(string(e.SpanID))
			}
		}
	case metricdata.ExponentialHistogram[float64]:
		for i := range data.DataPoints {
			adaptOverflow(&data.DataPoints[i].Attributes)
			data.DataPoints[i].Exemplars = exemplars(family.Metric[i].Histogram) // the bridge has none
		}
	}
}

// adaptOverflow replaces the label of what is beyond a bound by the attribute of the SDK.
func adaptOverflow(set *attribute.Set) {
	if set.HasValue(overflowLabel) {
		*set = attribute.NewSet(attribute.Bool("otel.metric.overflow", true))
	}
}

// exemplars returns those of a native histogram.
func exemplars(h *dto.Histogram) (all []metricdata.Exemplar[float64]) {
	for _, e := range h.GetExemplars() {
		exemplar := metricdata.Exemplar[float64]{Value: e.GetValue(), Time: e.GetTimestamp().AsTime()}
		for _, label := range e.Label {
			if label.GetName() == exemplarLabel {
				exemplar.SpanID = decoded(label.GetValue())
			}
		}
		all = append(all, exemplar)
	}
	return all
}

// decoded returns the bytes of an id, or nil if it is not one.
func decoded(id string) []byte {
	raw, err := hex.DecodeString(id)
	if err != nil {
		return nil
	}
	return raw
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
