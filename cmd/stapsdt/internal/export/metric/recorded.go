//go:build linux

package metric

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rules"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Recorded makes the metric of a rule from the events of recordings, or of programs that listen.
type Recorded struct {
	definition
	of      cgroup.Container
	problem func(error)
	sides   []pairing.Side // sides seen before pairs exists
	refused bool           // an error was reported for some of them
	events  uint64
	probes  map[*recording.Probe]*recordedProbe
	pairs   *pairing.Pairs // nil for a metric of Probe
	elapsed *recordedValue
	store
	unevaluated uint64 // events with an expression that could not be evaluated
}

// sample is a value at a time by CLOCK_MONOTONIC.
type sample struct {
	at    time.Duration
	value float64
}

func (s *series) hold(p replay.Writer, at time.Duration) {
	if s.latest == nil {
		s.latest = map[replay.Writer]sample{}
	}
	s.latest[p] = sample{at, s.Value}
}

// recordedProbe holds the expressions for the events of a probe.
type recordedProbe struct {
	*evaluate.Measure
	open  []string // the values of OpenLabels
	value *recordedValue
}

type recordedValue struct {
	of     expr.Type
	scale  float64
	bounds *query.Bounds // the bounds of a histogram, or nil
}

// NewRecorded returns the metric of a rule for events since created. of is the container of the
// programs, if it is known. problem is called with the reason why the events of a probe are not
// counted.
func NewRecorded(
	text rules.Metric, of cgroup.Container, created time.Time, problem func(error),
) *Recorded {
	m := &Recorded{
		definition: define(text, true), of: of, store: newStore(created),
		probes: map[*recording.Probe]*recordedProbe{},
	}
	m.problem = func(err error) { problem(fmt.Errorf("%s: %w", m.Name, err)) }
	if m.User != "" || m.Cgroup != "" {
		m.problem(errors.New("neither users nor control groups are known here: the events of all are included"))
	}
	return m
}

// Meet prepares the metric for the events of a probe, if the rule selects it.
func (m *Recorded) Meet(p *recording.Probe) {
	if _, known := m.probes[p]; known {
		return
	}
	m.probes[p] = nil
	var err error
	if m.Probe.IsZero() {
		err = m.pair(p)
	} else if m.Specs[0].Match(p.Provider, p.Name) {
		err = m.add(p)
	}
	if err != nil {
		m.problem(err)
	}
}

func (m *Recorded) add(p *recording.Probe) (err error) {
	r := &recordedProbe{open: m.openLabels(p.Provider, p.Name)}
	if r.Measure, err = evaluate.NewMeasure(p, m.counting()); err != nil {
		return m.explain(err)
	}
	if m.Value != "" {
		if r.value, err = m.valueOf(r.Type); err != nil {
			return err
		}
	}
	m.probes[p] = r
	return nil
}

// explain adds to the error of a probe that its events have nothing of their starts here.
func (m *Recorded) explain(err error) error {
	if !query.UsesStart(expr.Names(append(slices.Clone(m.by), m.Where, m.Value)...)) {
		return err
	}
	return fmt.Errorf("only the kernel gives the events of a rule's probe something of their starts: give start and end in place of probe (%w)", err)
}

func (m *Recorded) valueOf(t expr.Type) (v *recordedValue, err error) {
	v = &recordedValue{of: t}
	if v.scale, err = m.scaleOf(t); err != nil {
		return nil, err
	}
	if m.Kind == rules.Histogram || m.Kind == rules.Duration {
		v.bounds, err = m.bounds(t)
	}
	return v, err
}

// pair prepares the metric for the events of a start or an end, if it measures operations. It pairs
// nothing until it has seen one of each.
func (m *Recorded) pair(p *recording.Probe) error {
	isStart, err := spec.IsStart(&m.Specs[0], &m.Specs[1], p.Provider, p.Name)
	if err != nil || !isStart && !m.Specs[1].Match(p.Provider, p.Name) {
		return err
	}
	side := pairing.Side{Probe: p, IsStart: isStart}
	if m.pairs != nil {
		if err := m.pairs.AddSide(side); err != nil {
			m.pairs.Ignore(p)
			return err
		}
		return nil
	}
	m.sides = append(m.sides, side)
	isInFlight := m.Kind == rules.InFlight
	asked := query.Pairing{
		Key: m.Key, Where: query.SplitWhere(m.Where), By: m.by, AtStart: isInFlight,
	}
	var unfit query.Unfit // of other programs, which may have the same operations
	pairs, err := pairing.NewPairs(pairing.Plan{Pairing: asked, Unfit: &unfit}, m.sides)
	if errors.Is(err, query.ErrNothing) {
		return nil // the other side comes later
	}
	if err == nil && !isInFlight {
		m.elapsed, err = m.valueOf(query.Elapsed)
	}
	if err != nil {
		m.refused = true
		return err
	}
	if m.pairs, m.sides = pairs, nil; m.refused {
		return nil // which is known already
	}
	return unfit.Err()
}

// Drop removes the probes of a recording, and the operations that are open in it. Its process can
// have another one.
func (m *Recorded) Drop(f *replay.File) {
	for _, p := range f.Recorded() {
		delete(m.probes, p)
		m.sides = slices.DeleteFunc(m.sides, func(s pairing.Side) bool { return s.Probe == p })
	}
	if m.pairs != nil {
		m.pairs.Gone(f)
	}
}

// Gone is Drop for a recording whose process has ended. The recording then no longer has gauges.
func (m *Recorded) Gone(f *replay.File) {
	m.Drop(f)
	for id, s := range m.series {
		if delete(s.latest, f.Writer()); s.latest == nil {
			continue
		}
		if len(s.latest) == 0 {
			delete(m.series, id)
			continue
		}
		last := sample{at: -1}
		for _, one := range s.latest {
			if one.at > last.at {
				last = one
			}
		}
		s.Value = last.value
	}
}

// Add adds an event, if the rule selects it.
func (m *Recorded) Add(e *recording.Event, f *replay.File) {
	m.Meet(e.Probe)
	if m.Executable != "" {
		if ok, _ := path.Match(m.Executable, evaluate.Executable(e)); !ok {
			return
		}
	}
	if m.pairs != nil {
		m.pairUp(m.pairs.Add(e, f), f.Writer())
		return
	}
	p := m.probes[e.Probe]
	if p == nil {
		return
	}
	switch counts, fault := p.Take(e); {
	case counts:
		m.events++
		s := m.at(m.labelsOf(p.Values, p.open))
		if m.record(s, p.value, p.Bits); m.Kind == rules.Gauge {
			s.hold(f.Writer(), e.Monotonic)
		}
	case fault:
		m.unevaluated++
	}
}

// pairUp counts the outcome of an event of an operation.
func (m *Recorded) pairUp(o pairing.Outcome, of replay.Writer) {
	if m.Kind != rules.InFlight {
		if o.HasEnded {
			m.events++
			m.record(m.at(m.labelsOf(o.Ended.By, nil)), m.elapsed, uint64(o.Ended.Took))
		}
		return
	}
	if o.HasEnded || o.Started != nil && o.Started.Selected() {
		m.events++
	}
	if o.HasEnded && m.hasRoom() { // its series is 0 while the process runs
		m.at(m.labelsOf(o.Ended.By, nil)).hold(of, 0)
	}
}

// record adds a value to a series. v is nil if the metric counts events.
func (m *Recorded) record(s *series, v *recordedValue, bits uint64) {
	s.events++
	switch {
	case v == nil:
		s.Value++
	case m.Kind == rules.Gauge:
		s.Value = asFloat(v.of, bits) * v.scale
	case v.bounds == nil:
		s.Value += asFloat(v.of, bits) * v.scale
	default:
		m.divide(&s.Series)
		s.Sum += asFloat(v.of, bits) * v.scale
		m.count(&s.Series, v.bounds.Slot(v.of, bits), 1)
	}
}

// at returns the series with these labels, or the overflow series if there is no room.
func (m *Recorded) at(labels []string) *series {
	id := key(labels)
	if s := m.series[id]; s != nil {
		return s
	}
	if labels != nil && !m.hasRoom() {
		return m.at(nil)
	}
	s := m.get(id, labels)
	if labels != nil && m.perContainer {
		s.Container = m.of
	}
	return s
}

// hasRoom reports whether there is room for another series, apart from the overflow series.
func (m *Recorded) hasRoom() bool {
	used := len(m.series)
	if m.series[key(nil)] != nil {
		used--
	}
	return used < m.Series
}

// expire retires the series that have had no events for the rule's Expire. It does not keep the
// last value of a gauge, which is useless later.
func (m *Recorded) expire(now time.Time) {
	for id, s := range m.series {
		s.see(s.events, now)
		if m.Kind != rules.InFlight && !s.Overflow && s.expired(m.Expire, now) {
			m.retire(id, m.Kind != rules.Gauge)
		}
	}
	m.limit(m.Series, now)
}

// labelsOf returns the labels for values, with the labels of the container and of the probe.
func (m *Recorded) labelsOf(values []evaluate.Value, probe []string) []string {
	labels := make([]string, 0, len(m.labels))
	for i := range values {
		labels = append(labels, labelOf(&values[i]))
	}
	return append(m.appendContainer(labels, &m.of), probe...)
}

// Read returns the metric.
func (m *Recorded) Read() Reading {
	if m.Kind == rules.InFlight {
		m.open()
	}
	if m.isOne() && m.Kind != rules.Gauge { // an exporter shows the series before the first event
		m.divide(&m.at(m.labelsOf(nil, nil)).Series)
	}
	m.expire(time.Now())
	all := make([]*expose.Series, 0, len(m.series))
	for _, s := range m.series {
		all = append(all, &s.Series)
	}
	r := Reading{Family: m.family(all), Events: m.events, Unevaluated: m.unevaluated}
	if m.pairs != nil {
		r.Full, r.Unevaluated = m.pairs.Open.Full, r.Unevaluated+m.pairs.Unevaluated
	}
	return r
}

// open counts the operations that are open. Those have a series before others, which are 0.
func (m *Recorded) open() {
	m.retired, m.series = m.series, map[string]*series{}
	for _, s := range m.retired {
		s.Value = 0
	}
	if m.pairs != nil {
		for o := range m.pairs.Selected() {
			s := m.at(m.labelsOf(o.By, nil))
			s.Value++
			s.hold(o.File.Writer(), 0)
		}
	}
	for id, s := range m.retired {
		if m.hasRoom() && !s.Overflow {
			m.series[id] = s
		}
	}
	clear(m.retired)
}
