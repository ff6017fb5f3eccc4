//go:build linux

package metric

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rule"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rules"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
)

// Reading is a metric with its series, and the numbers of events about it.
type Reading struct {
	*expose.Family
	Events uint64 // the events in the metric
	// Full counts the operations that were not measured because too many were open, and Unevaluated
	// the events of a Recorded that were left out because an expression could not be evaluated.
	Full, Unevaluated uint64
}

// definition holds the data that follows from a rule, regardless of the source of its events.
type definition struct {
	rules.Metric
	// Specs select the probe, or the start and the end.
	Specs  []spec.Choice
	by     []string // the expressions of the first labels
	labels []string // the names of all labels
	first  int      // the index of a native histogram's second bucket
	// containers are the labels after those of by: the container labels that the rule requests, and
	// the remaining rules.PodLabels, which are empty. A label that the rule defines itself is left
	// out.
	containers []string
	// perContainer is true if the labels tell all containers apart.
	perContainer bool
}

// define returns the definition of a rule. If the executable is unknown, its label is one of
// containers, and empty.
func define(text rules.Metric, knowsExecutable bool) definition {
	m := definition{Metric: text, Specs: []spec.Choice{{Spec: text.Probe}}}
	if text.Probe.IsZero() {
		m.Specs = []spec.Choice{{Spec: text.Start}, {Spec: text.End}}
	}
	for _, label := range m.By {
		m.by, m.labels = append(m.by, label.Expr), append(m.labels, label.Name)
	}
	switch {
	case !m.asks(rules.Executable):
	case knowsExecutable:
		m.by, m.labels = append(m.by, rule.Executable), append(m.labels, rules.Executable)
	default:
		m.containers = append(m.containers, rules.Executable)
	}
	for _, name := range rules.ProcessLabels {
		own := slices.ContainsFunc(m.By, func(by rules.Label) bool { return by.Name == name })
		if name != rules.Executable && !own &&
			(m.asks(name) || slices.Contains(rules.PodLabels, name)) {
			m.containers = append(m.containers, name)
		}
	}
	m.labels = slices.Concat(m.labels, m.containers, m.OpenLabels())
	lacks := func(name string) bool { return !m.asks(name) }
	m.perContainer = !slices.ContainsFunc(rules.PodLabels, lacks)
	return m
}

// asks reports whether the rule has a label that identifies the process.
func (m *definition) asks(label string) bool { return slices.Contains(m.Process, label) }

// appendContainer appends the values of the labels for a container.
func (m *definition) appendContainer(values []string, c *cgroup.Container) []string {
	for _, name := range m.containers {
		value := ""
		switch {
		case !m.asks(name), name == rules.Executable:
		case name == rules.Namespace:
			value = c.Namespace
		case name == rules.Workload:
			value = c.Workload()
		case name == rules.Pod:
			value = c.Pod
		case name == rules.Container:
			value = c.Name
		case !c.InPod() || m.PodIDs:
			value = c.ID
		}
		values = append(values, value)
	}
	return values
}

// Follows reports whether this is the metric of a rule.
func (m *definition) Follows(text rules.Metric) bool { return reflect.DeepEqual(m.Metric, text) }

// counting returns the part of a program that the rule defines. A counter never falls.
func (m *definition) counting() query.Counting {
	return query.Counting{
		Value: m.Value, For: "a metric", Rises: m.Kind == rules.Counter, Latest: m.Kind == rules.Gauge,
		By: m.by, Where: m.Where,
	}
}

// labelOf converts a value to a label. Gauges whose labels would become equal later must share a
// series, which has their latest value.
func labelOf(v *evaluate.Value) string {
	if v.Item.Type.Kind == expr.String {
		text, _, _ := strings.Cut(v.Text, "\x00") // where the kernel ends it
		return expose.Repaired(text)
	}
	if name := v.Item.Constants[v.Bits]; name != "" {
		return expose.Repaired(name)
	}
	return string(render.AppendNumber(nil, v.Item.Type, v.Bits))
}

// isOne reports whether there is only one series, so that its labels are known before its first
// event.
func (m *definition) isOne() bool { return len(m.by) == 0 && len(m.OpenLabels()) == 0 }

func (m *definition) openLabels(provider, probe string) (values []string) {
	for _, name := range m.OpenLabels() {
		value := probe
		switch name {
		case "provider":
			value = provider
		case "function":
			value = strings.TrimSuffix(probe, spec.ReturnSuffix)
		}
		values = append(values, expose.Repaired(value))
	}
	return values
}

// scaleOf returns the scale factor for a value of a type.
func (m *definition) scaleOf(t expr.Type) (float64, error) {
	switch {
	case m.Scale != 0:
		return m.Scale, nil
	case t.Unit == kind.Nanoseconds:
		return 1e-9, nil
	}
	return 0, fmt.Errorf("the unit of %s is unknown: give scale, such as 1e-6 for microseconds", m.Value)
}

// bounds returns the bounds of the buckets for a value of a type.
func (m *definition) bounds(t expr.Type) (*query.Bounds, error) {
	scale, err := m.scaleOf(t)
	if err != nil {
		return nil, err
	}
	list := m.Bounds
	if m.Native {
		list, m.first = query.Exponential(scale)
	}
	return query.NewBounds(list, scale, t)
}

// divide creates the buckets of a series, if it has none.
func (m *definition) divide(s *expose.Series) {
	if s.Buckets == nil && !m.Native {
		s.Buckets = make([]uint64, len(m.Bounds)+1)
	}
	if s.Exponential == nil && m.Native {
		s.Exponential = map[int]uint64{}
	}
}

// count adds n events to a bucket of a series. slot is the bucket's index in the list of bounds.
func (m *definition) count(s *expose.Series, slot int, n uint64) {
	switch {
	case n == 0:
	case !m.Native:
		s.Buckets[slot] += n
	case slot == 0:
		s.Zero += n
	default:
		s.Exponential[m.first+slot-1] += n
	}
}

// family returns the metric with copies of its series, which are sorted.
func (m *definition) family(series []*expose.Series) *expose.Family {
	f := &expose.Family{
		Name: m.Name, Help: m.Help, Unit: m.Unit, Bounds: m.Bounds, Native: m.Native,
		Labels: m.labels, ContainerLabels: m.containers, PerContainer: m.perContainer,
	}
	switch m.Kind {
	case rules.Gauge, rules.InFlight:
		f.Kind = expose.Gauge
	case rules.Histogram, rules.Duration:
		f.Kind = expose.Histogram
	}
	slices.SortFunc(series, (*expose.Series).Compare)
	f.Series = make([]expose.Series, len(series))
	var buckets []uint64
	if f.Kind == expose.Histogram && !f.Native {
		buckets = make([]uint64, 0, len(series)*(len(m.Bounds)+1))
	}
	for i, s := range series {
		f.Series[i] = *s
		if to := &f.Series[i]; s.Buckets != nil {
			n := len(buckets)
			buckets = append(buckets, s.Buckets...)
			to.Buckets = buckets[n:len(buckets):len(buckets)]
		} else {
			to.Exponential = maps.Clone(s.Exponential)
		}
	}
	return f
}
