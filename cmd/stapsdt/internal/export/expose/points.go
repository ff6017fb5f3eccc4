//go:build linux

package expose

import (
	"encoding/hex"
	"math"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// started is the start of metrics that do not define their own.
var started = time.Now()

const (
	cumulative = metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
	delta      = metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
)

// number returns a point of a sum or a gauge.
func number(s *dto.Metric, value float64, now uint64) *metrics.NumberDataPoint {
	return &metrics.NumberDataPoint{
		Attributes: labelAttributes(s), TimeUnixNano: now,
		Value: &metrics.NumberDataPoint_AsDouble{AsDouble: value},
	}
}

// convertMetric converts a family for OTLP. now is the time of its points.
func convertMetric(f *dto.MetricFamily, now uint64) *metrics.Metric {
	m := &metrics.Metric{Name: f.GetName(), Description: f.GetHelp(), Unit: unit(f)}
	switch {
	case f.GetType() == dto.MetricType_COUNTER:
		sum := &metrics.Sum{AggregationTemporality: cumulative, IsMonotonic: true}
		for _, s := range f.Metric {
			point := number(s, s.Counter.GetValue(), now)
			point.StartTimeUnixNano = since(s.Counter.CreatedTimestamp)
			sum.DataPoints = append(sum.DataPoints, point)
		}
		m.Data = &metrics.Metric_Sum{Sum: sum}
	case f.GetType() == dto.MetricType_GAUGE:
		gauge := &metrics.Gauge{}
		for _, s := range f.Metric {
			gauge.DataPoints = append(gauge.DataPoints, number(s, s.Gauge.GetValue(), now))
		}
		m.Data = &metrics.Metric_Gauge{Gauge: gauge}
	case f.GetType() == dto.MetricType_SUMMARY:
		summary := &metrics.Summary{}
		for _, s := range f.Metric {
			point := &metrics.SummaryDataPoint{
				Attributes:        labelAttributes(s),
				StartTimeUnixNano: since(s.Summary.CreatedTimestamp), TimeUnixNano: now,
				Count: s.Summary.GetSampleCount(), Sum: s.Summary.GetSampleSum(),
			}
			for _, q := range s.Summary.Quantile {
				value := metrics.SummaryDataPoint_ValueAtQuantile{
					Quantile: q.GetQuantile(), Value: q.GetValue(),
				}
				point.QuantileValues = append(point.QuantileValues, &value)
			}
			summary.DataPoints = append(summary.DataPoints, point)
		}
		m.Data = &metrics.Metric_Summary{Summary: summary}
	case f.Metric[0].Histogram.Schema != nil:
		histogram := &metrics.ExponentialHistogram{AggregationTemporality: cumulative}
		for _, s := range f.Metric {
			histogram.DataPoints = append(histogram.DataPoints, exponentialPoint(s, now))
		}
		m.Data = &metrics.Metric_ExponentialHistogram{ExponentialHistogram: histogram}
	default:
		histogram := &metrics.Histogram{AggregationTemporality: cumulative}
		for _, s := range f.Metric {
			histogram.DataPoints = append(histogram.DataPoints, histogramPoint(s, now))
		}
		m.Data = &metrics.Metric_Histogram{Histogram: histogram}
	}
	return m
}

func histogramPoint(m *dto.Metric, now uint64) *metrics.HistogramDataPoint {
	h := m.Histogram
	p := &metrics.HistogramDataPoint{
		Attributes: labelAttributes(m), StartTimeUnixNano: since(h.CreatedTimestamp),
		TimeUnixNano: now, Count: h.GetSampleCount(), Sum: h.SampleSum,
	}
	below := uint64(0)
	for _, b := range h.Bucket {
		if b.Exemplar != nil {
			p.Exemplars = append(p.Exemplars, convertExemplar(b.Exemplar))
		}
		if math.IsInf(b.GetUpperBound(), 1) {
			break // present only if it has an exemplar
		}
		p.ExplicitBounds = append(p.ExplicitBounds, b.GetUpperBound())
		p.BucketCounts = append(p.BucketCounts, b.GetCumulativeCount()-below)
		below = b.GetCumulativeCount()
	}
	p.BucketCounts = append(p.BucketCounts, p.Count-below)
	return p
}

// exponentialPoint converts a native histogram. OTLP identifies a bucket by its lower bound, so its
// index is one less than Prometheus's.
func exponentialPoint(m *dto.Metric, now uint64) *metrics.ExponentialHistogramDataPoint {
	h := m.Histogram
	positive := &metrics.ExponentialHistogramDataPoint_Buckets{}
	count, deltas := int64(0), h.PositiveDelta
	for i, span := range h.PositiveSpan {
		if i == 0 {
			positive.Offset = span.GetOffset() - 1
		} else {
			empty := make([]uint64, span.GetOffset())
			positive.BucketCounts = append(positive.BucketCounts, empty...)
		}
		for _, step := range deltas[:span.GetLength()] {
			count += step
			positive.BucketCounts = append(positive.BucketCounts, uint64(count))
		}
		deltas = deltas[span.GetLength():]
	}
	p := &metrics.ExponentialHistogramDataPoint{
		Attributes: labelAttributes(m), StartTimeUnixNano: since(h.CreatedTimestamp),
		TimeUnixNano: now, Count: h.GetSampleCount(), Sum: h.SampleSum, Scale: h.GetSchema(),
		ZeroCount: h.GetZeroCount(), ZeroThreshold: h.GetZeroThreshold(), Positive: positive,
	}
	for _, e := range h.Exemplars {
		p.Exemplars = append(p.Exemplars, convertExemplar(e))
	}
	return p
}

// convertExemplar converts an exemplar. Its only label is the ID of a span in hexadecimal.
func convertExemplar(e *dto.Exemplar) *metrics.Exemplar {
	id, _ := hex.DecodeString(e.Label[0].GetValue())
	return &metrics.Exemplar{
		SpanId: id, TimeUnixNano: nanoseconds(e.Timestamp.AsTime()),
		Value: &metrics.Exemplar_AsDouble{AsDouble: e.GetValue()},
	}
}

// labelAttributes returns the labels of a series, or OpenTelemetry's attribute for the overflow.
func labelAttributes(m *dto.Metric) (all []*common.KeyValue) {
	for _, l := range m.Label {
		if l.GetName() == overflowLabel {
			return []*common.KeyValue{keyValue("otel.metric.overflow", true)}
		}
		all = append(all, keyValue(l.GetName(), l.GetValue()))
	}
	return all
}

// since returns the time when counting began.
func since(created *timestamppb.Timestamp) uint64 {
	if created == nil {
		return nanoseconds(started)
	}
	return nanoseconds(created.AsTime())
}

// codes maps the units of Prometheus to the codes of UCUM, which OpenTelemetry uses.
var codes = map[string]string{
	"seconds": "s", "bytes": "By", "ratio": "1", "meters": "m", "grams": "g", "joules": "J", "volts": "V", "amperes": "A", "celsius": "Cel",
}

// unit returns the UCUM unit of a family: an annotation if UCUM lacks the unit, and "" if it is
// unknown. The exporter's own metrics have their unit only in their names.
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
