//go:build linux

package metric

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rules"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Recorded makes the metric of a rule from the events of recordings, or of programs that listen.
type Recorded struct {
	definition
	of          cgroup.Container
	specs       []spec.Choice
	problem     func(error)
	sides       []replay.Side // sides seen before pairs exists
	events      uint64
	probes      map[*recording.Probe]*recordedProbe
	pairs       *replay.Pairs // nil for a metric of Probe
	series      map[string]*recordedSeries
	retired     map[string]*recordedSeries // the expired series, which may return
	created     time.Time                  // the time when the counting of other series begins
	elapsed     *recordedValue
	unevaluated uint64 // events with an expression that could not be evaluated
}

// recordedSeries is a series, and its activity at the last call of Read.
type recordedSeries struct {
	expose.Series
	events  uint64
	seen    uint64    // events at that call
	changed time.Time // when events was last seen to change
	// latest has the processes of a gauge or of operations in flight, with the latest value of each. The series is removed with the
	// last of them.
	latest map[replay.Writer]sample
}

// sample is a value at a time by CLOCK_MONOTONIC.
type sample struct {
	at    time.Duration
	value float64
}

func (s *recordedSeries) hold(p replay.Writer, at time.Duration) {
	if s.latest == nil {
		s.latest = map[replay.Writer]sample{}
	}
	s.latest[p] = sample{at, s.Value}
}

// recordedProbe holds the expressions for the events of a probe.
type recordedProbe struct {
	*replay.Measure
	open  []string // the values of OpenLabels
	value *recordedValue
}

type recordedValue struct {
	of     expr.Type
	scale  float64
	bounds *query.Bounds // the bounds of a histogram, or nil
}

// NewRecorded returns the metric of a rule for events since created. of is the container of the programs,
// if it is known. problem is called with the reason why the events of a probe are not counted.
func NewRecorded(text rules.Metric, of cgroup.Container, created time.Time, problem func(error)) (m *Recorded, err error) {
	m = &Recorded{
		definition: define(text, true), of: of, created: created,
		probes: map[*recording.Probe]*recordedProbe{},
		series: map[string]*recordedSeries{}, retired: map[string]*recordedSeries{},
	}
	m.problem = func(err error) { problem(fmt.Errorf("%s: %w", m.Name, err)) }
	if m.User != "" || m.Cgroup != "" {
		m.problem(errors.New("neither users nor control groups are known here: the events of all are included"))
	}
	m.specs, err = spec.ParseChoices(m.Specs(), nil)
	return m, err
}

// Meet prepares the metric for the events of a probe, if the rule selects it.
func (m *Recorded) Meet(p *recording.Probe) {
	if _, known := m.probes[p]; known {
		return
	}
	m.probes[p] = nil
	var err error
	if m.Probe == "" {
		err = m.pair(p)
	} else if m.specs[0].Match(p.Provider, p.Name) {
		err = m.add(p)
	}
	if err != nil {
		m.problem(err)
	}
}

func (m *Recorded) add(p *recording.Probe) (err error) {
	r := &recordedProbe{open: m.openLabels(p.Provider, p.Name)}
	if r.Measure, err = replay.NewMeasure(p, m.counting()); err != nil {
		return err
	}
	if m.Value != "" {
		if r.value, err = m.valueOf(r.Type); err != nil {
			return err
		}
	}
	m.probes[p] = r
	return nil
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
	isStart, err := spec.IsStart(&m.specs[0], &m.specs[1], p.Provider, p.Name)
	if err != nil || !isStart && !m.specs[1].Match(p.Provider, p.Name) {
		return err
	}
	side := replay.Side{Probe: p, IsStart: isStart}
	if m.pairs != nil {
		if err := m.pairs.AddSide(side); err != nil {
			m.pairs.Ignore(p)
			return err
		}
		return nil
	}
	m.sides = append(m.sides, side)
	isInFlight := m.Kind == rules.InFlight
	pairing := query.Pairing{
		Key: m.Key, Where: query.SplitWhere(m.Where), By: m.by, AtStart: isInFlight,
	}
	pairs, err := replay.NewPairs(replay.Plan{Pairing: pairing}, m.sides)
	if errors.Is(err, query.ErrNothing) {
		return nil // the other side comes later
	}
	if err == nil && !isInFlight {
		m.elapsed, err = m.valueOf(query.Elapsed)
	}
	if err != nil {
		return err
	}
	m.pairs, m.sides = pairs, nil
	return nil
}

// Drop removes the probes of a recording, and the operations that are open in it. Its process can
// have another one.
func (m *Recorded) Drop(f *replay.File) {
	for _, p := range f.Recorded() {
		delete(m.probes, p)
		m.sides = slices.DeleteFunc(m.sides, func(s replay.Side) bool { return s.Probe == p })
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
		if ok, _ := path.Match(m.Executable, replay.Executable(e)); !ok {
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
func (m *Recorded) pairUp(o replay.Outcome, of replay.Writer) {
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
func (m *Recorded) record(s *recordedSeries, v *recordedValue, bits uint64) {
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
func (m *Recorded) at(labels []string) *recordedSeries {
	id := key(labels)
	s := m.series[id]
	if s != nil {
		return s
	}
	if labels != nil && !m.hasRoom() {
		return m.at(nil)
	}
	if s = m.retired[id]; s == nil {
		s = &recordedSeries{Series: expose.Series{Values: labels, Overflow: labels == nil, Created: m.created}}
		if labels != nil && m.perContainer {
			s.Container = m.of
		}
	}
	delete(m.retired, id)
	m.series[id] = s
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

// expire removes the series that have had no events for the rule's Expire.
func (m *Recorded) expire(now time.Time) {
	for id, s := range m.series {
		switch {
		case s.events != s.seen || s.changed.IsZero():
			s.seen, s.changed = s.events, now
		case m.Kind == rules.InFlight || m.Expire == 0 || s.Overflow || now.Sub(s.changed) < m.Expire:
		default:
			delete(m.series, id)
			if m.Kind == rules.Gauge {
				continue // its last value is of no use later
			}
			m.retired[id] = s
		}
	}
	for len(m.retired) > retiredPerSeries*m.Series {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(m.retired)), func(a, b string) int { return m.retired[a].changed.Compare(m.retired[b].changed) })
		delete(m.retired, oldest)
		m.created = now // a series that appears later may have been dropped before
	}
}

// labelsOf returns the labels for values, with the labels of the container and of the probe.
func (m *Recorded) labelsOf(values []replay.Value, probe []string) []string {
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
		r.Full, r.Unevaluated = m.pairs.Full, r.Unevaluated+m.pairs.Unevaluated
	}
	return r
}

// open counts the operations that are open. Those have a series before others, which are 0.
func (m *Recorded) open() {
	m.retired, m.series = m.series, map[string]*recordedSeries{}
	for _, s := range m.retired {
		s.Value = 0
	}
	if m.pairs != nil {
		m.pairs.Open(func(o *replay.Operation) {
			s := m.at(m.labelsOf(o.By, nil))
			s.Value++
			s.hold(o.File.Writer(), 0)
		})
	}
	for id, s := range m.retired {
		if m.hasRoom() && !s.Overflow {
			m.series[id] = s
		}
	}
	clear(m.retired)
}
