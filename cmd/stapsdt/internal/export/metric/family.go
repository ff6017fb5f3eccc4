//go:build linux

package metric

import (
	"errors"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rules"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/internal/expr"
)

// Read reads the metric.
func (m *Traced) Read() (Reading, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var totals query.Totals
	var totalsErr error
	switch {
	case m.pairs != nil && m.pairs.Plan != nil:
		totals, totalsErr = m.totals()
	case m.Ends != nil:
		totals, totalsErr = m.Ends.Totals()
	}
	c, err := m.collect(time.Now())
	r := Reading{Family: m.family(m.found), Events: c.events, Full: totals.Full}
	return r, errors.Join(err, totalsErr)
}

// collect makes a pass over the tables, and updates the series from their rows.
func (m *Traced) collect(now time.Time) (c *collection, err error) {
	c = &collection{Traced: m, now: now, found: m.found[:0], owned: map[uint64]int{}}
	m.passes++
	// Prometheus computes the increase of a series from its second value on, so the first events
	// need a 0 before them. This is possible only if the labels are known in advance.
	if m.isOne() && m.Kind != rules.Gauge {
		of := cgroup.Container{}
		c.divide(&c.at(m.appendContainer(nil, &of), of).Series)
	}
	switch m.Kind {
	case rules.InFlight:
		err = c.inFlight()
	case rules.Gauge:
		err = c.gauges()
	default:
		err = c.rows(func(*layout.Tables, *layout.Row) bool { return true })
	}
	if err == nil {
		c.forget()
	}
	m.found = c.found
	return c, err
}

// forget retires the series, and drops the rows, that this pass has not found.
func (c *collection) forget() {
	if len(c.series) > len(c.found) {
		for id, s := range c.series {
			if s.pass != c.passes {
				c.retire(id, s.past != nil)
			}
		}
	}
	maps.DeleteFunc(c.known, func(_ rowKey, k *knownRow) bool { return k.pass != c.passes })
	c.limit(c.Series, c.now)
	if len(c.retired) == 0 || !c.perContainer {
		return
	}
	shown := map[string]bool{} // the labels that exist
	for _, s := range c.found {
		shown[key(s.Values)] = true
	}
	for _, s := range c.retired {
		if shown[key(s.Values)] { // the series of a restarted container must not fall
			c.find(s, s.Container)
		}
	}
}

// collection is the state of a pass.
type collection struct {
	*Traced
	found []*expose.Series
	// owned is the number of series of open operations that each user of the machine has begun.
	owned map[uint64]int
	now   time.Time // when the pass began
	read  time.Time // when the data being converted was read
	clock layout.Clock
	// overflow is the number of those events that had no room.
	events, overflow uint64
}

// key returns the map key for a series. labels is nil for the overflow series.
func key(labels []string) string {
	if labels == nil {
		return "overflow"
	}
	return "\x00" + strings.Join(labels, "\x00") // equals no other key, because strings have no NUL
}

// at returns the series with the given labels, and creates it if necessary. A restarted container
// has the same labels as before, but a series of its own.
func (c *collection) at(labels []string, of cgroup.Container) *series {
	s := c.get(c.keyOf(labels, of), labels)
	c.find(s, of)
	return s
}

// find adds a series, with the numbers of its removed rows, to those that this pass has found,
// unless it is already among them.
func (c *collection) find(s *series, of cgroup.Container) {
	if s.pass != c.passes {
		s.pass, s.set, s.sum = c.passes, 0, query.Sum{}
		clear(s.Buckets)
		clear(s.Exponential)
		s.Series = expose.Series{
			Values: s.Values, Overflow: s.Overflow, Created: s.Created,
			Buckets: s.Buckets, Exponential: s.Exponential,
		}
		for shape, r := range s.past {
			c.addTo(s, shape, r)
		}
		c.found = append(c.found, &s.Series)
	}
	if !s.Overflow && c.perContainer && of.ID != cgroup.Unknown {
		s.Container = of
	}
}

// keyOf is key for a container's series. Containers with the same labels share a gauge, which has
// the latest of their values.
func (c *collection) keyOf(labels []string, of cgroup.Container) string {
	if labels == nil || c.Kind == rules.Gauge || !c.perContainer {
		return key(labels)
	}
	return key(labels) + "\x00" + of.ID
}

// rows reads the tables, and adds the selected rows.
func (c *collection) rows(selected func(*layout.Tables, *layout.Row) bool) error {
	c.events += c.removal.events
	buffer := rowBuffers.Get().(*[]layout.Row)
	defer rowBuffers.Put(buffer)
	for t, like := range c.tableShapes() {
		all, err := t.All(*buffer)
		*buffer = all
		if err != nil {
			return err
		}
		c.read = time.Now()
		for i := range all {
			r := &all[i]
			c.events += r.Count
			if r.Overflow {
				c.overflow += r.Count
			}
			if selected(t, r) {
				c.add(like, t, r)
			}
		}
	}
	return nil
}

// rowBuffers holds memory for the rows of one table.
var rowBuffers = sync.Pool{New: func() any { return new([]layout.Row) }}

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
	lives := proc.Lives{}
	var removeErr error
	err := c.rows(func(t *layout.Tables, r *layout.Row) bool {
		alive := lives.Has(r.Process)
		if !alive && !r.Overflow { // the overflow row serves all processes
			if err := t.Remove(r.Key); err != nil {
				removeErr = err
				return false
			}
			c.removal.events += r.Count
		}
		return alive
	})
	return errors.Join(err, removeErr)
}

// add adds a row to its series.
func (c *collection) add(like *shape, t *layout.Tables, r *layout.Row) {
	s := like
	if !r.Overflow {
		s = c.shapes[r.ID]
	}
	if to := c.seriesOf(s, t, r); to != nil {
		c.addTo(to, s, r)
	}
}

// addTo adds the counts of a row of a shape to a series.
func (c *collection) addTo(to *series, s *shape, r *layout.Row) {
	to.sum.Merge(r.Sum)
	switch {
	case c.Kind == rules.Gauge:
		// Programs with arguments of other types have rows of their own.
		if r.Time >= to.set {
			to.set, to.Value = r.Time, asFloat(s.Value, r.Latest)*s.scale
		}
	case c.Kind == rules.Counter && c.Value == "":
		to.Value += float64(r.Count)
	case c.Kind == rules.Counter:
		to.Value = to.sum.Float() * s.scale
	default:
		to.Sum = to.sum.Float() * s.scale
		c.addBuckets(&to.Series, s, r)
	}
}

// seriesOf returns the series of a row, or nil if the labels of its container are not known yet.
func (c *collection) seriesOf(s *shape, t *layout.Tables, r *layout.Row) *series {
	if r.Overflow {
		return c.at(nil, cgroup.Container{})
	}
	of, pending := c.containerIn(s.Keys, r.Key)
	if pending {
		return nil
	}
	k := c.known[rowKey{t, string(r.Key)}]
	if k != nil && (k.of == nil || of == *k.of) {
		c.find(k.series, of)
	} else {
		k = &knownRow{series: c.at(c.labelsOf(s.Keys, r.Key, of, s.probe), of)}
		if c.group >= 0 {
			container := of // of itself stays on the stack, for the rows that are known
			k.of = &container
		}
		c.known[rowKey{t, string(r.Key)}] = k
	}
	k.pass = c.passes
	k.see(r.Count, c.now)
	return k.series
}

func (c *collection) addBuckets(to *expose.Series, s *shape, r *layout.Row) {
	c.divide(to)
	for i, n := range r.Buckets {
		c.count(to, s.Slot(i), n)
	}
	for _, e := range r.Exemplars {
		to.Exemplars = append(to.Exemplars, expose.Exemplar{
			Value: asFloat(s.Value, e.Value) * s.scale, SpanID: e.ID, Time: c.clock.At(e.Time),
		})
	}
}

// labelsOf returns the labels in a key, followed by those of the container and of the probe.
func (c *collection) labelsOf(
	items []value.Item, key []byte, of cgroup.Container, probe []string,
) []string {
	labels := make([]string, 0, len(c.labels))
	for i := range items {
		if i != c.group {
			v := evaluate.ValueIn(&items[i], key)
			labels = append(labels, labelOf(&v))
		}
	}
	return append(c.appendContainer(labels, &of), probe...)
}

// containerIn returns the container in a key, which is zero if the labels do not need it. pending
// reports whether its labels are not known yet.
func (c *collection) containerIn(
	items []value.Item, key []byte,
) (of cgroup.Container, pending bool) {
	if c.group < 0 {
		return of, false
	}
	id, _, _ := items[c.group].In(key)
	return c.Cgroups.Container(id, c.read)
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
		of, pending := c.containerIn(o.Plan.Open, one.Value)
		if pending {
			continue
		}
		labels := c.labelsOf(o.Plan.Open, one.Value, of, nil)
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
		of, pending := c.containerIn(c.pairs.Plan.Open, s.Value)
		if pending {
			continue
		}
		if labels := c.labelsOf(c.pairs.Plan.Open, s.Value, of, nil); !c.full(noOwner, labels, of) {
			c.at(labels, of)
		}
	}
	return err
}

// noOwner is the owner of series in which all operations have ended.
const noOwner = math.MaxUint64

// full reports whether a series with these labels would exceed the user's share. A user may have as
// many series as are free. One user alone can have the limit, as with rows: see layout.Limits.
func (c *collection) full(owner uint64, labels []string, of cgroup.Container) bool {
	if s := c.series[c.keyOf(labels, of)]; s != nil && s.pass == c.passes {
		return false
	}
	c.owned[owner]++
	return c.owned[owner] > 2*c.Series-len(c.found)
}

func asFloat(t expr.Type, bits uint64) float64 {
	if t.Kind == expr.Int {
		return float64(int64(bits))
	}
	return float64(bits)
}
