//go:build linux

package metric

import (
	"maps"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
)

// store holds the series of a metric. A series without events for the time of the rule's Expire is
// retired to make room for others. Its numbers are kept, so that it continues from them if events
// return.
type store struct {
	series, retired map[string]*series // keyed by labels and container
	// created is the time when counting begins for a series that is not known. Once retired series
	// were dropped, it is the time of the last drop, because the series may be one of them.
	created time.Time
}

// retiredPerSeries is the maximum number of retired series per series that a metric may have.
const retiredPerSeries = 4

// series is a series with the state from which its source computes its numbers.
type series struct {
	expose.Series
	activity

	// A Recorded adds the numbers of each event. latest has the processes of a gauge or of
	// operations in flight, with the latest value of each. The series is removed with the last of
	// them.
	events uint64
	latest map[replay.Writer]sample

	// A Traced computes the numbers again in each pass from past, the removed rows of each shape,
	// and from the rows in its tables. sum is exact, so that the result never falls.
	past map[*shape]*layout.Row
	sum  query.Sum
	set  time.Duration // when the value of a gauge was set
	pass uint64        // the last pass that found it
}

// activity records when a number of events was last seen to change.
type activity struct {
	count   uint64
	changed time.Time
}

// see notes the number of events by now.
func (a *activity) see(count uint64, now time.Time) {
	if a.count != count || a.changed.IsZero() {
		a.count, a.changed = count, now
	}
}

// expired reports whether there were no events for the time after. If that is 0, nothing expires.
func (a *activity) expired(after time.Duration, now time.Time) bool {
	return after > 0 && now.Sub(a.changed) >= after
}

func newStore(created time.Time) store {
	return store{map[string]*series{}, map[string]*series{}, created}
}

// get returns the series of a key. If there is none, it restores the retired one or creates one.
func (m *store) get(id string, labels []string) *series {
	s := m.series[id]
	if s == nil {
		if s = m.retired[id]; s == nil {
			s = &series{Series: expose.Series{
				Values: labels, Overflow: labels == nil, Created: m.created,
			}}
		}
		delete(m.retired, id)
		m.series[id] = s
	}
	return s
}

// retire removes a series. If keep is true, get can restore it.
func (m *store) retire(id string, keep bool) {
	if keep {
		m.retired[id] = m.series[id]
	}
	delete(m.series, id)
}

// limit drops the retired series whose last events are the oldest if there are too many. most is
// the maximum number of series that the metric has in use.
func (m *store) limit(most int, now time.Time) {
	excess := len(m.retired) - retiredPerSeries*most
	if excess <= 0 {
		return
	}
	byAge := func(a, b string) int { return m.retired[a].changed.Compare(m.retired[b].changed) }
	for _, id := range slices.SortedFunc(maps.Keys(m.retired), byAge)[:excess] {
		delete(m.retired, id)
	}
	m.created = now
}
