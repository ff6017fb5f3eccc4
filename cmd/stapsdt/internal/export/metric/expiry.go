//go:build linux

package metric

import (
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rules"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
)

// history is the past of a metric's rows. A row that has had no events for the rule's Expire is
// removed from its table, so that others have room. Its numbers are kept, so that the series
// continues from them if it returns.
//
// The metric's lock guards it.
type history struct {
	purged  time.Time
	active  map[rowKey]activity
	retired map[rowKey]retiredRow
	// sums has the retired rows that were too many, added up if their series have the same labels.
	sums map[sumKey]*retiredSum
	// dropped is the time when a retired row was last dropped, because there were too many. A
	// series that appears later may have existed before, so its counting begins at this time.
	dropped  time.Time
	events   uint64 // events of the rows that were removed
	overflow uint64 // the events that had no room, at the last purge
	warned   bool   // true after a warning, while overflow still rises
}

type rowKey struct {
	of  *layout.Tables
	key string
}

// activity is the state of a row at the last purge.
type activity struct {
	count   uint64
	changed time.Time // when count was last seen to change
	since   time.Time // when counting began, or zero if it began with the rule
}

// retiredRow is a removed row with its last activity.
type retiredRow struct {
	*layout.Row
	activity
}

// sumKey identifies rows of a shape whose series have the same labels.
type sumKey struct {
	*shape
	labels string
}

// retiredSum is the sum of retired rows with the same labels.
type retiredSum struct {
	retiredRow
	labels []string
}

// retiredPerSeries is the maximum number of retired rows for each series that a metric may have.
const retiredPerSeries = 4

// purgeInterval returns the interval in which a metric removes expired rows.
func (m *Traced) purgeInterval() time.Duration {
	if m.Expire == 0 {
		return time.Minute
	}
	return min(m.Expire/8, time.Minute)
}

// purgeRows removes the rows that have expired, and warns if the table is full.
func (m *Traced) purgeRows(now time.Time) error {
	h := &m.history
	if m.Kind == rules.InFlight || now.Sub(h.purged) < m.purgeInterval() {
		return nil
	}
	h.purged = now
	overflow := uint64(0)
	active := make(map[rowKey]activity, len(h.active))
	for t := range m.tableShapes() {
		all, err := t.All(nil)
		if err != nil {
			return err
		}
		for i := range all {
			r := &all[i]
			if r.Overflow {
				overflow += r.Count
				continue
			}
			id := rowKey{t, string(r.Key)}
			a := h.activityOf(id, r.Count, now)
			if m.Expire == 0 || now.Sub(a.changed) < m.Expire || !t.Removable() {
				active[id] = a
			} else if err := m.retire(id, a, r); err != nil {
				return err
			}
		}
		if err := t.Recount(); err != nil {
			return err
		}
	}
	h.active = active
	m.dropRetired(retiredPerSeries*m.Series, now)
	m.warnFull(overflow)
	return nil
}

// activityOf returns the activity of a row that has counted count events by now.
func (h *history) activityOf(id rowKey, count uint64, now time.Time) activity {
	a, known := h.active[id]
	if !known {
		a.since = h.began(id)
	}
	if a.count != count {
		a.count, a.changed = count, now
	}
	return a
}

// began returns when counting began for a row that the last purge did not see.
func (h *history) began(id rowKey) time.Time {
	if before, ok := h.retired[id]; ok {
		return before.since
	}
	return h.dropped
}

// warnFull warns when a metric begins to lack room for further series.
func (m *Traced) warnFull(overflow uint64) {
	h := &m.history
	more := overflow - h.overflow
	if more > 0 && !h.warned {
		m.Warn("%s: %d events had no room: all %d series of a user are in use, or too many of others (see series, expire and by in the rule), and more are counted under otel_metric_overflow", m.Name, more, m.Series)
	}
	h.overflow, h.warned = overflow, more > 0
}

// retire removes a row from its table. It does not keep the last value of a gauge, which is of no use later.
func (m *Traced) retire(id rowKey, a activity, r *layout.Row) error {
	taken, err := id.of.Take(r)
	if err != nil {
		return err
	}
	h := &m.history
	h.events += taken.Count
	if m.Kind == rules.Gauge {
		return nil
	}
	if before, ok := h.retired[id]; ok {
		taken.Add(before.Row)
	}
	h.retired[id] = retiredRow{taken, a}
	return nil
}

// dropRetired drops the rows whose last events are the oldest, if there are too many. If other
// containers continue the series of such a row, its counts stay, because the series must not fall.
func (m *Traced) dropRetired(most int, now time.Time) {
	h := &m.history
	excess := len(h.retired) - most
	if excess <= 0 {
		return
	}
	var ids []rowKey
	for id := range h.retired {
		if _, returned := h.active[id]; !returned {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b rowKey) int { return h.retired[a].changed.Compare(h.retired[b].changed) })
	for _, id := range ids[:min(excess, len(ids))] {
		if !m.sumUp(h.retired[id], most, now) {
			h.dropped = now
		}
		delete(h.retired, id)
	}
}

// sumUp adds a retired row to those with the same labels. It reports whether the counts of the row
// are kept, which they are not if the labels are those of one container alone, or if there are too
// many sums.
func (m *Traced) sumUp(r retiredRow, most int, now time.Time) bool {
	if m.group < 0 || m.perContainer {
		return false
	}
	s := m.shapes[r.ID]
	c := &collection{Traced: m, read: now}
	labels, _, pending := c.labelsOf(s.Keys, r.Key, s.probe)
	if pending {
		return false
	}
	h, id := &m.history, sumKey{s, key(labels)}
	if sum := h.sums[id]; sum != nil {
		sum.Add(r.Row)
		return true
	}
	if h.sums == nil {
		h.sums = map[sumKey]*retiredSum{}
	}
	if len(h.sums) == most {
		return false
	}
	h.sums[id] = &retiredSum{r, labels}
	return true
}

// restore adds the counts of a row before its removal to the row. It returns when its counting began, which is zero if
// it began with the rule.
func (h *history) restore(t *layout.Tables, r *layout.Row) (since time.Time) {
	before, retired := h.retired[rowKey{t, string(r.Key)}]
	if retired {
		r.Add(before.Row)
	}
	if a, known := h.active[rowKey{t, string(r.Key)}]; known {
		return a.since
	}
	if retired {
		return before.since
	}
	return h.dropped
}
