//go:build linux

// Package metric keeps the metrics that rules define for probes.
package metric

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rule"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rules"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/operations"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
)

// Traced keeps the metric of a rule. It is an engine.Subscriber.
type Traced struct {
	rule.Base
	definition
	group int // the index of the control group in by, or -1

	// guards the following fields, which scrapes and the engine use
	mu     sync.Mutex
	shapes []*shape                  // indexed by the IDs in rows
	tables map[string]*layout.Tables // keyed by layout

	pairs   *pairTables // nil for a metric of Probe
	kinds   []string    // the functions whose calls are paired, by the IDs of their kinds
	removal removal

	store
	// passes is the number of passes over the tables. The last one has found these series, and
	// these rows, whose labels are known.
	passes uint64
	found  []*expose.Series
	known  map[rowKey]*knownRow
}

// shape describes the rows of a program: the types of their labels, and their value.
type shape struct {
	*bpf.Aggregate
	tables *layout.Tables
	// probe has the labels for the parts of the probe's name that the rule does not fix.
	probe []string
	scale float64
}

func (m *Traced) processFound(pid int) error {
	if err := m.pairs.ProcessFound(m.Env, pid); err != nil {
		return fmt.Errorf("%w; its events are not included", err)
	}
	return nil
}

// New returns the metric of a rule. It checks everything that does not depend on the probes.
func New(h *rule.Host, text rules.Metric) (*Traced, error) {
	m := &Traced{
		definition: define(text, bpf.CheckExecutable() == nil), group: -1,
		tables: map[string]*layout.Tables{}, store: newStore(time.Now()),
		known: map[rowKey]*knownRow{},
	}
	ofContainer := func(name string) bool { return name != rules.Executable && m.asks(name) }
	if slices.ContainsFunc(m.containers, ofContainer) {
		m.group = len(m.by)
		m.by = append(m.by, rule.Cgroup)
	}
	if err := m.open(h); err != nil {
		m.Close()
		return nil, fmt.Errorf("%s: %s: %w", h.File, m.Name, err)
	}
	return m, nil
}

func (m *Traced) open(h *rule.Host) error {
	if err := bpf.CheckExecutable(); m.asks(rules.Executable) && err != nil {
		h.Complaints.Complain(fmt.Sprintf("the label executable is left out: %v", err))
	}
	if m.Probe.IsZero() {
		m.Selection.Together = true
		m.pairs = &pairTables{Operations: operations.Operations{Shared: true}}
	}
	if slices.Contains(m.Key, query.Goroutine) {
		m.Selection.ProcessFound = m.processFound
	}
	if err := m.Base.Open(h, m.Name, &m.Select, m.Specs); err != nil {
		return err
	}
	if m.pairs == nil {
		m.NeedStarts(byProbe{m}, append(slices.Clone(m.by), m.Where, m.Value)...)
	}
	return nil
}

// Section implements engine.Subscriber.
func (m *Traced) Section(p *bpf.Probe) (*bpf.Section, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.pairs != nil:
		return m.pairSection(p)
	case m.Ends != nil:
		return m.Ends.Section(p)
	}
	return m.probeSection(p)
}

// byProbe is the subscriber that counts the events of a probe.
type byProbe struct{ *Traced }

func (m byProbe) Section(p *bpf.Probe) (*bpf.Section, error) { return m.probeSection(p) }

// probeSection generates the code that counts the events of a probe.
func (m *Traced) probeSection(p *bpf.Probe) (*bpf.Section, error) {
	c := m.counting()
	if m.Kind == rules.Histogram {
		c.Bounds = m.bounds
		if isSpanEnd(p) {
			c.ID = "id"
		}
	}
	a, err := bpf.NewAggregate(p, c, nil)
	if err != nil {
		return nil, err
	}
	scale, err := m.scaleOf(a.Value)
	if err != nil {
		return nil, err
	}
	tables, id, err := m.shape(p, a, scale)
	if err != nil {
		return nil, err
	}
	return a.Section(m.Env, tables, id)
}

// checkKeys returns an error if a label is the type of a value: its name is known only while the
// program's file is open.
func checkKeys(keys []value.Item) error {
	for i := range keys {
		if keys[i].Names != nil {
			return fmt.Errorf("the label %s is an interface: use failed, or a comparison such as {no_error: %s == 0}", keys[i].Name, keys[i].Name)
		}
	}
	return nil
}

// isSpanEnd reports whether a probe is the end of a span, with its ID as the first argument.
func isSpanEnd(p *bpf.Probe) bool {
	return strings.HasSuffix(p.Name, "__end") && len(p.Args) > 0 && p.Args[0].Name == "id" &&
		!p.Args[0].Float
}

const (
	// maxPlaces is the maximum number of programs without keys that have a row each.
	maxPlaces = 64
	// maxBytes is the maximum size of a table that has rows for each processor.
	maxBytes = 8 << 20
)

// shape returns the tables and the ID of the shape of a program for a probe.
func (m *Traced) shape(
	p *bpf.Probe, a *bpf.Aggregate, scale float64,
) (t *layout.Tables, id uint32, err error) {
	if err := checkKeys(a.Keys); err != nil {
		return nil, 0, err
	}
	key := a.String()
	if t = m.tables[key]; t == nil {
		limits := layout.Limits{
			Rows: m.Series, Places: min(2*m.Series, maxPlaces), Bytes: maxBytes, Shared: true,
		}
		if t, err = a.NewTables(limits); err != nil {
			return nil, 0, bpf.MapError(err)
		}
		m.tables[key] = t
	}
	s := &shape{Aggregate: a, tables: t, probe: m.openLabels(p.Provider, p.Name), scale: scale}
	if i := slices.IndexFunc(m.shapes, s.equal); i >= 0 {
		return t, uint32(i), nil
	}
	m.shapes = append(m.shapes, s)
	return t, uint32(len(m.shapes) - 1), nil
}

// equal reports whether rows of both shapes have the same meaning.
func (s *shape) equal(other *shape) bool {
	return s.tables == other.tables && s.Value == other.Value &&
		slices.Equal(s.probe, other.probe) &&
		slices.EqualFunc(s.Keys, other.Keys, func(a, b value.Item) bool {
			return a.Type == b.Type && a.Offset == b.Offset && maps.Equal(a.Constants, b.Constants)
		})
}

// Purge removes the series that have expired, and the open operations of processes that have
// ended.
func (m *Traced) Purge() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.purgeRows(time.Now())
	if err == nil && m.pairs != nil {
		err = m.pairs.purge()
	}
	if err == nil && m.Ends != nil {
		err = m.Ends.Purge()
	}
	return err
}

// Close releases everything.
func (m *Traced) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Base.Close()
	for _, t := range m.tables {
		t.Close()
	}
	if m.pairs != nil {
		m.pairs.close()
	}
}
