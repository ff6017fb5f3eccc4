//go:build linux

package metric

import (
	"errors"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rules"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/expr"
)

// Read reads the metric.
func (m *Traced) Read() (Reading, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &collection{Traced: m, series: map[string]*expose.Series{}, shown: map[string]bool{}, latest: map[string]time.Duration{}, owned: map[uint64]int{}}
	// Prometheus computes the increase of a series from its second value on, so the first events
	// need a 0 before them. This is possible only if the labels are known in advance.
	if m.isOne() && m.Kind != rules.Gauge {
		c.divide(c.at(m.appendContainer(nil, &cgroup.Container{}), cgroup.Container{}))
	}
	var totals query.Totals
	var err, totalsErr error
	if m.pairs != nil && m.pairs.Plan != nil {
		totals, totalsErr = layout.ReadTotals(m.pairs.Tables.Totals, 0)
	}
	switch m.Kind {
	case rules.InFlight:
		err = c.inFlight()
	case rules.Gauge:
		err = c.gauges()
	default:
		err = c.rows(func(*layout.Tables, *layout.Row) bool { return true })
	}
	return Reading{Family: c.family(c.series), Events: c.events, Full: totals.Full}, errors.Join(err, totalsErr)
}

// collection is the state of one call of Read.
type collection struct {
	*Traced
	series map[string]*expose.Series // keyed by labels and container
	shown  map[string]bool           // the labels that exist
	latest map[string]time.Duration  // the time of a gauge's value, by its labels
	owned  map[uint64]int            // the number of series of open operations that each user of the machine has begun
	read   time.Time                 // when the data being converted was read
	events uint64
}

// key returns the map key for a series. labels is nil for the overflow series.
func key(labels []string) string {
	if labels == nil {
		return "overflow"
	}
	return "\x00" + strings.Join(labels, "\x00") // equals no other key, because strings have no NUL
}

// at returns the series with the given labels, and creates it if necessary. A restarted container has the same labels
// as before, but a series of its own.
func (c *collection) at(labels []string, of cgroup.Container) *expose.Series {
	id := c.keyOf(labels, of)
	s := c.series[id]
	if s == nil {
		s = &expose.Series{Values: labels, Overflow: labels == nil, Created: c.started}
		c.series[id] = s
		c.shown[key(labels)] = true
	}
	if labels != nil && c.perContainer() && of.ID != cgroup.Unknown {
		s.Container = of
	}
	return s
}

// keyOf is key for a container's series. Containers with the same labels share a gauge, which has the latest of their values.
func (c *collection) keyOf(labels []string, of cgroup.Container) string {
	if labels == nil || c.Kind == rules.Gauge || !c.perContainer() {
		return key(labels)
	}
	return key(labels) + "\x00" + of.ID
}

// rows reads the tables, and adds the selected rows.
func (c *collection) rows(selected func(*layout.Tables, *layout.Row) bool) error {
	c.events += c.history.events
	past := maps.Clone(c.history.retired)
	for t, like := range c.tableShapes() {
		all, err := t.All()
		if err != nil {
			return err
		}
		c.read = time.Now()
		for _, r := range all {
			c.events += r.Count
			if selected(t, r) {
				c.add(like, r, c.history.restore(t, r))
			}
			delete(past, rowKey{t, string(r.Key)})
		}
	}
	for _, r := range past {
		// The series of a restarted container goes on, and must not fall.
		s := c.shapes[r.ID]
		if labels, _, pending := c.labelsOf(s.Keys, r.Key, s.probe); !pending && c.shown[key(labels)] {
			c.add(s, r.Row, r.since)
		}
	}
	return nil
}

// tableShapes returns the tables that programs write to, with a shape of each.
func (m *Traced) tableShapes() iter.Seq2[*layout.Tables, *shape] {
	return func(yield func(*layout.Tables, *shape) bool) {
		for _, t := range m.tables {
			i := slices.IndexFunc(m.shapes, func(s *shape) bool { return s.tables == t })
			if i >= 0 && !yield(t, m.shapes[i]) { // i is -1 if the program could not be loaded
				return
			}
		}
	}
}

// gauges reads the tables and removes the rows whose process has exited.
func (c *collection) gauges() error {
	type row struct {
		*layout.Row
		of *layout.Tables
	}
	var dead []row
	lives := probes.Lives{}
	err := c.rows(func(t *layout.Tables, r *layout.Row) bool {
		if lives.Has(r.Process) {
			return true
		}
		if !r.Overflow { // the overflow row serves all processes
			dead = append(dead, row{r, t})
		}
		return false
	})
	for _, r := range dead {
		if err := r.of.Remove(r.Row); err != nil {
			return err
		}
		c.history.events += r.Count
	}
	return err
}

// add adds a row to its series. since is the time when its counting began, or zero if it began with
// the rule.
func (c *collection) add(like *shape, r *layout.Row, since time.Time) {
	s := like
	var labels []string
	var of cgroup.Container
	if !r.Overflow {
		s = c.shapes[r.ID]
		var pending bool
		if labels, of, pending = c.labelsOf(s.Keys, r.Key, s.probe); pending {
			return
		}
	}
	to := c.at(labels, of)
	if since.After(to.Created) {
		to.Created = since
	}
	switch {
	case c.Kind == rules.Gauge:
		// Programs with arguments of other types have rows of their own.
		if latest := c.latest[key(labels)]; r.Time >= latest {
			c.latest[key(labels)], to.Value = r.Time, asFloat(s.Value, r.Latest)*s.scale
		}
	case c.Kind == rules.Counter && c.Value == "":
		to.Value += float64(r.Count)
	case c.Kind == rules.Counter:
		to.Value += r.Sum.Float() * s.scale
	default:
		c.addBuckets(to, s, r)
	}
}

func (c *collection) addBuckets(to *expose.Series, s *shape, r *layout.Row) {
	to.Sum += r.Sum.Float() * s.scale
	c.divide(to)
	for i, n := range r.Buckets {
		c.count(to, s.Slot(i), n)
	}
	var clock event.Clock
	for _, e := range r.Exemplars {
		to.Exemplars = append(to.Exemplars, expose.Exemplar{
			Value: asFloat(s.Value, e.Value) * s.scale, SpanID: e.ID, Time: clock.At(e.Time),
		})
	}
}

// labelsOf returns the labels in a key, followed by the probe's labels, and the container. pending reports whether the
// container's labels are not known yet.
func (c *collection) labelsOf(
	items []event.Item, key []byte, probe []string,
) (labels []string, of cgroup.Container, pending bool) {
	labels = make([]string, 0, len(c.labels))
	for i := range items {
		v := replay.ValueIn(&items[i], key)
		if i != c.group {
			labels = append(labels, labelOf(&v))
		} else if of, pending = c.Cgroups.Container(v.Bits, c.read); pending {
			return nil, of, true
		}
	}
	return append(c.appendContainer(labels, &of), probe...), of, false
}

func (c *collection) inFlight() error {
	o := c.pairs
	if o.Plan == nil {
		return nil
	}
	open, err := o.Open()
	if err != nil {
		return err
	}
	c.read = time.Now()
	totals, err := layout.ReadTotals(o.Tables.Totals, 0)
	if err != nil {
		return err
	}
	c.events = totals.Starts + totals.Pairs
	for _, one := range open {
		if one.Since == 0 {
			continue // a condition was false
		}
		labels, of, pending := c.labelsOf(o.Plan.Open, one.Value, nil)
		if pending {
			continue
		}
		if c.full(one.Owner, labels, of) {
			labels = nil
		}
		c.at(labels, of).Value++
	}
	return c.zeros()
}

func (c *collection) zeros() error {
	seen, err := c.pairs.labels()
	for _, s := range seen {
		labels, of, pending := c.labelsOf(c.pairs.Plan.Open, s.Value, nil)
		if !pending && !c.full(noOwner, labels, of) {
			c.at(labels, of)
		}
	}
	return err
}

// noOwner is the owner of series in which all operations have ended.
const noOwner = math.MaxUint64

// full reports whether a series with these labels would exceed the user's share. A user may have as many series as are free. One user
// alone can have the limit, as with rows: see layout.Limits.
func (c *collection) full(owner uint64, labels []string, of cgroup.Container) bool {
	if c.series[c.keyOf(labels, of)] != nil {
		return false
	}
	c.owned[owner]++
	return c.owned[owner] > 2*c.Series-len(c.series)
}

func asFloat(t expr.Type, bits uint64) float64 {
	if t.Kind == expr.Int {
		return float64(int64(bits))
	}
	return float64(bits)
}
