//go:build linux

package metric

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rules"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
)

// removal is the state of the removal of expired rows from the tables. The metric's lock guards it.
type removal struct {
	purged   time.Time
	events   uint64 // events of the rows that were removed
	overflow uint64 // the events that had no room, at the last purge
	warned   bool   // true after a warning, while overflow still rises
}

type rowKey struct {
	of  *layout.Tables
	key string
}

// knownRow is a row whose series is known, as long as it has the same container.
type knownRow struct {
	series *series
	of     *cgroup.Container // nil if the labels do not need it
	pass   uint64            // the last pass that found it
	activity
}

// purgeInterval returns the interval in which a metric removes expired rows.
func (m *Traced) purgeInterval() time.Duration {
	if m.Expire == 0 {
		return time.Minute
	}
	return min(m.Expire/8, time.Minute)
}

// purgeRows removes the rows that have expired, and warns if the table is full.
func (m *Traced) purgeRows(now time.Time) error {
	if m.Kind == rules.InFlight || now.Sub(m.removal.purged) < m.purgeInterval() {
		return nil
	}
	m.removal.purged = now
	c, err := m.collect(now)
	if err != nil {
		return err
	}
	for id, k := range m.known {
		if k.expired(m.Expire, now) && id.of.Removable() {
			if err := m.remove(id, k); err != nil {
				return err
			}
		}
	}
	for t := range m.tableShapes() {
		if err := t.Recount(); err != nil {
			return err
		}
	}
	m.warnFull(c.overflow)
	return nil
}

// remove removes a row from its table. Its series keeps the counts, which must not fall, but not
// the last value of a gauge, which is useless later.
func (m *Traced) remove(id rowKey, k *knownRow) error {
	r, err := id.of.Take([]byte(id.key))
	if err != nil {
		return err
	}
	delete(m.known, id)
	m.removal.events += r.Count
	if m.Kind == rules.Gauge {
		return nil
	}
	s, of := k.series, m.shapes[r.ID]
	if k.changed.After(s.changed) {
		s.changed = k.changed
	}
	if before := s.past[of]; before != nil {
		before.Add(r)
		return nil
	}
	if s.past == nil {
		s.past = map[*shape]*layout.Row{}
	}
	r.Exemplars = nil // they are too old
	s.past[of] = r
	return nil
}

// warnFull warns when a metric begins to lack room for further series.
func (m *Traced) warnFull(overflow uint64) {
	more := overflow - m.removal.overflow
	if more > 0 && !m.removal.warned {
		m.Warn("%s: %d events had no room: all %d series of a user are in use, or too many of others (see series, expire and by in the rule), and more are counted under otel_metric_overflow", m.Name, more, m.Series)
	}
	m.removal.overflow, m.removal.warned = overflow, more > 0
}
