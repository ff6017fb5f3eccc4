//go:build linux

package metric

import (
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rules"

	"github.com/stretchr/testify/assert"
)

// TestExpiry: a series without events leaves its room to others, and goes on where it was when it returns.
func TestExpiry(t *testing.T) {
	for _, kind := range []rules.Kind{rules.Counter, rules.Gauge, rules.InFlight} {
		m := &Recorded{series: map[string]*recordedSeries{}, retired: map[string]*recordedSeries{}}
		m.Kind, m.Series, m.Expire = kind, 1, time.Minute
		now := time.Now()
		add := func(label string) *recordedSeries {
			s := m.at([]string{label})
			m.record(s, &recordedValue{scale: 1}, 1)
			m.expire(now)
			return s
		}
		add("a")
		now = now.Add(time.Minute - 1)
		m.expire(now)
		assert.True(t, add("b").Overflow)
		assert.Equal(t, uint64(1), m.overflow)
		now = now.Add(1)
		m.expire(now)
		assert.Equal(t, kind != rules.InFlight, !add("b").Overflow, kind)
		if kind == rules.InFlight {
			continue
		}
		for n, label := range []string{"c", "d", "a"} {
			now = now.Add(time.Minute)
			m.expire(now)
			want := map[bool]float64{true: 2, false: 1}[kind == rules.Counter && label == "a"]
			assert.Equal(t, want, add(label).Value, "%v %s", kind, label)
			assert.LessOrEqual(t, len(m.retired), retiredPerSeries, n)
		}
		assert.True(t, m.created.IsZero(), "nothing was dropped")
		for _, label := range []string{"f", "g", "b"} {
			now = now.Add(time.Minute)
			m.expire(now)
			assert.Equal(t, 1.0, add(label).Value, "%v %s", kind, label)
		}
		assert.Equal(t, kind == rules.Counter, m.created.Equal(now), "b was dropped")
	}
}
