//go:build linux

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/program"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rules"
	"github.com/go-stapsdt/stapsdt/internal/expr"
)

// metricRule keeps the metric of a rule.
type metricRule struct {
	ruleBase
	rules.Metric
	started time.Time

	conditions []string
	by         []string // expressions
	labels     []string // their names

	shapes []*shape                         // by the numbers in rows
	tables map[string]*program.MetricTables // by layout
	first  int                              // the index of a native histogram's second bucket

	operations *operations // of Start and End, and nil of Probe
	ended      ended       // of a gauge
	history    history
}

// shape is what a row has: labels of certain types, and a value.
type shape struct {
	*program.Metric
	tables *program.MetricTables
	// probe has the labels for the parts of the probe's name that the rule leaves open.
	probe []string
	scale float64
}

// Together implements engine.Subscriber.
func (m *metricRule) Together() bool { return m.operations != nil }

// AsksProcesses implements engine.Subscriber.
func (m *metricRule) AsksProcesses() bool { return m.Key == program.Goroutine }

// ProcessFound implements engine.Subscriber.
func (m *metricRule) ProcessFound(pid int) error {
	if err := m.operations.goroutines.find(m.env, pid); err != nil {
		return fmt.Errorf("%w; its events are not included", err)
	}
	return nil
}

// prepare checks what does not depend on the probes.
func (m *metricRule) prepare(e *exporter) (err error) {
	m.started, m.tables = time.Now(), map[string]*program.MetricTables{}
	fail := func(err error) error { return fmt.Errorf("%s: %s: %w", e.config, m.Name, err) }
	if m.conditions, err = conditions(&m.Select, m.Metric.Where); err != nil {
		return fail(err)
	}
	if slices.Contains(m.Process, "executable") && !program.KnowsExecutable() {
		return fail(errors.New("this kernel does not say which executable a process has, because it has no BTF: give labels: [container], or labels: []"))
	}
	for _, label := range m.By {
		m.by, m.labels = append(m.by, label.Expr), append(m.labels, label.Name)
	}
	for _, name := range m.Process {
		m.by, m.labels = append(m.by, processLabels[name]), append(m.labels, name)
	}
	m.labels = append(m.labels, m.OpenLabels()...)
	specs := []string{m.Probe}
	if m.Probe == "" {
		specs = []string{m.Start, m.End}
		m.operations = &operations{rule: m}
	}
	if err := m.ruleBase.prepare(e, m.Name, &m.Select, specs); err != nil {
		return fail(err)
	}
	return nil
}

// processLabels are the expressions of the labels that say who fired.
var processLabels = map[string]string{"executable": "executable", "container": "cgroup"}

// openLabels returns the values of the labels OpenLabels.
func (m *metricRule) openLabels(p *program.Probe) (values []string) {
	for _, name := range m.OpenLabels() {
		if name == "provider" {
			values = append(values, p.Provider)
		} else {
			values = append(values, p.Name)
		}
	}
	return values
}

// Section implements engine.Subscriber.
func (m *metricRule) Section(p *program.Probe) (*program.Section, error) {
	m.exporter.mu.Lock() // for shapes and tables
	defer m.exporter.mu.Unlock()
	if m.operations != nil {
		return m.operations.section(p)
	}
	kinds := map[rules.Kind]program.MetricKind{rules.Counter: program.Count, rules.Gauge: program.Latest, rules.Histogram: program.Histogram}
	spec := program.MetricSpec{Kind: kinds[m.Kind], Value: m.Value, By: m.by, Where: conjunction(m.conditions), Bounds: m.bounds}
	if m.Kind == rules.Counter && m.Value != "" {
		spec.Kind = program.Total
	}
	if m.Kind == rules.Histogram && isSpanEnd(p) {
		spec.ID = "id"
	}
	metric, err := program.NewMetric(p, spec)
	if err != nil {
		return nil, err
	}
	scale, err := m.scaleOf(metric.Value)
	if err != nil {
		return nil, err
	}
	s := &shape{Metric: metric, probe: m.openLabels(p), scale: scale}
	id, err := m.shape(s)
	if err != nil {
		return nil, err
	}
	return metric.Section(m.env, s.tables, id)
}

// isSpanEnd reports whether a probe is the end of a span, whose first argument is its id.
func isSpanEnd(p *program.Probe) bool {
	return strings.HasSuffix(p.Name, "__end") && len(p.Args) > 0 && p.Args[0].Name == "id" && !p.Args[0].Float
}

// scaleOf returns what a value is multiplied with.
func (m *metricRule) scaleOf(t expr.Type) (float64, error) {
	switch {
	case m.Scale != 0:
		return m.Scale, nil
	case t.Duration:
		return 1e-9, nil
	}
	return 0, fmt.Errorf("the unit of %s is unknown: give scale, such as 1e-6 for microseconds", m.Value)
}

// bounds returns the bounds of the buckets, for a value.
func (m *metricRule) bounds(t expr.Type) (*program.Bounds, error) {
	scale, err := m.scaleOf(t)
	if err != nil {
		return nil, err
	}
	list := m.Bounds
	if m.Native {
		list, m.first = program.Exponential(scale)
	}
	return program.NewBounds(list, scale, t)
}

// shape finds tables for a shape, and returns its number.
func (m *metricRule) shape(s *shape) (id uint32, err error) {
	layout := s.Layout()
	if s.tables = m.tables[layout]; s.tables == nil {
		if s.tables, err = s.NewTables(m.Series); err != nil {
			return 0, program.MapError(err)
		}
		m.tables[layout] = s.tables
	}
	for i, known := range m.shapes {
		if known.equal(s) {
			return uint32(i), nil
		}
	}
	m.shapes = append(m.shapes, s)
	return uint32(len(m.shapes) - 1), nil
}

// equal reports whether rows of both mean the same.
func (s *shape) equal(other *shape) bool {
	return s.tables == other.tables && s.Value == other.Value && slices.Equal(s.probe, other.probe) &&
		slices.EqualFunc(s.Keys, other.Keys, func(a, b program.Item) bool { return a.Type == b.Type && a.Offset == b.Offset })
}

// sweep removes the series that have expired, and the open operations of processes that have
// ended.
func (m *metricRule) sweep() error {
	if err := m.sweepRows(time.Now()); err != nil || m.operations == nil {
		return err
	}
	return m.operations.sweep()
}

func (m *metricRule) close() {
	m.ruleBase.close()
	for _, t := range m.tables {
		t.Close()
	}
	if m.operations != nil {
		m.operations.close()
	}
}
