//go:build linux

package expose

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Metrics combines the metrics of a Collector with the exporter's own, for /metrics and for OTLP.
// It is a [prometheus.TransactionalGatherer].
type Metrics struct {
	source Collector
	own    *prometheus.Registry
	spare  atomic.Pointer[page] // the page of an earlier scrape, or nil

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

// Gather reads the metrics, which are valid until done is called. Its error is always nil: metrics
// that are unreadable or not valid are counted and left out, so that the others are still shown.
func (m *Metrics) Gather() (all []*dto.MetricFamily, done func(), err error) {
	p := m.spare.Swap(nil)
	if p == nil { // this is the first scrape, or it is concurrent with another one
		p = &page{}
	}
	return m.withOwn(m.convert(p, m.collect())), func() { m.spare.Store(p) }, nil
}

func (m *Metrics) collect() []Family {
	collected, err := m.source.Collect()
	if err != nil {
		m.failures.Inc()
	}
	return collected
}

// convert fills a page with metrics, and counts series that are not valid.
func (m *Metrics) convert(to *page, collected []Family) []*dto.MetricFamily {
	all, invalid := to.convert(collected)
	m.invalid.Add(float64(invalid))
	return all
}

// withOwn adds the exporter's own metrics, and sorts all. It must be called after convert, because
// the counts of convert are among them. No rule makes a metric with the name of one of them.
func (m *Metrics) withOwn(all []*dto.MetricFamily) []*dto.MetricFamily {
	own, err := m.own.Gather()
	if err != nil {
		m.failures.Inc()
	}
	all = append(all, own...)
	slices.SortFunc(
		all, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) },
	)
	return all
}
