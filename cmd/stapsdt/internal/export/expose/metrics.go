//go:build linux

package expose

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Metrics combines the metrics of a Collector with the exporter's own, for /metrics and for OTLP. It is a
// [prometheus.Gatherer].
type Metrics struct {
	source Collector
	own    *prometheus.Registry

	failures, invalid prometheus.Counter
}

// NewMetrics returns the metrics of source and of own. It registers its counters in own.
func NewMetrics(source Collector, own *prometheus.Registry) *Metrics {
	m := &Metrics{
		source: source, own: own,
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stapsdt_export_collect_failures_total",
			Help: "How often metrics could not be read completely.",
		}),
		invalid: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stapsdt_export_invalid_series_total",
			Help: "Series that were not shown, because their names or numbers are not valid; counted each time.",
		}),
	}
	own.MustRegister(m.failures, m.invalid)
	return m
}

// Gather reads the metrics. Its error is always nil: metrics that are unreadable or not valid are counted and left out,
// so that the others are still shown.
func (m *Metrics) Gather() ([]*dto.MetricFamily, error) {
	return m.withOwn(m.convert(m.collect())), nil
}

func (m *Metrics) collect() []Family {
	collected, err := m.source.Collect()
	if err != nil {
		m.failures.Inc()
	}
	return collected
}

// convert converts metrics, and counts series that are not valid.
func (m *Metrics) convert(collected []Family) (all []*dto.MetricFamily) {
	for i := range collected {
		family, invalid := convert(&collected[i])
		m.invalid.Add(float64(invalid))
		if family != nil {
			all = append(all, family)
		}
	}
	return all
}

// withOwn adds the exporter's own metrics, and sorts all. It must be called after convert, because the counts of
// convert are among them. No rule makes a metric with the name of one of them.
func (m *Metrics) withOwn(all []*dto.MetricFamily) []*dto.MetricFamily {
	own, err := m.own.Gather()
	if err != nil {
		m.failures.Inc()
	}
	all = append(all, own...)
	slices.SortFunc(all, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all
}
