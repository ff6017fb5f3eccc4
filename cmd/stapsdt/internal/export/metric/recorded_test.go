//go:build linux

package metric

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rules"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/proberec"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestExpiry: a series without events leaves its room to others, and goes on where it was when it returns.
func TestExpiry(t *testing.T) {
	for _, kind := range []rules.Kind{rules.Counter, rules.Gauge, rules.InFlight} {
		m := &Recorded{store: newStore(time.Time{})}
		m.Kind, m.Series, m.Expire = kind, 1, time.Minute
		now := time.Now()
		add := func(label string) *series {
			s := m.at([]string{label})
			m.record(s, &recordedValue{scale: 1}, 1)
			m.expire(now)
			return s
		}
		add("a")
		now = now.Add(time.Minute - 1)
		m.expire(now)
		assert.True(t, add("b").Overflow)
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

// TestGone: a process that has ended leaves nothing but the series of its counters, and a gauge has the latest value of the others.
func TestGone(t *testing.T) {
	p := stapsdt.NewProvider("p")
	defer p.Close()
	probe := stapsdt.NewProbe1[int](p, "n", "n")
	path := filepath.Join(t.TempDir(), "recording")
	r, err := proberec.Create(path, 1<<20, p)
	require.NoError(t, err)
	r.Start()
	probe.Fire(7)
	require.NoError(t, r.Close())
	reader, err := replay.Open(replay.From{Paths: []string{path}}, nil, "", nil)
	require.NoError(t, err)
	defer reader.Close()
	_, err = reader.More()
	require.NoError(t, err)
	e, file, err := reader.Next()
	require.NoError(t, err)
	m := NewRecorded(rules.Metric{Name: "n", Probe: querytest.Spec("p:n"), Kind: rules.Gauge, Value: "n", Scale: 1, Series: 1}, cgroup.Container{}, time.Now(), nil)
	m.Add(e, file)
	require.Len(t, m.series, 1)
	for _, s := range m.series {
		s.Value = 5
		s.hold(replay.Writer{PID: 1}, e.Monotonic-2)
		s.Value = 6
		s.hold(replay.Writer{PID: 2}, e.Monotonic-1)
	}
	m.Gone(file)
	for _, s := range m.series {
		require.Equal(t, 6., s.Value)
	}
	require.Empty(t, m.probes)
}

// TestPrograms: a program that lacks a label or the key of an operation is left out, and reported.
// It does not take the operations of the others with it.
func TestPrograms(t *testing.T) {
	var r eventtest.Recording
	old, end := r.Probe("p", "op__start", "id"), r.Probe("p", "op__end", "id")
	start := r.Probe("p", "op__start", "id", "a")
	r.Chunk(0, 0, eventtest.Fired{Probe: old, Words: []uint64{1}},
		eventtest.Fired{Probe: end, Words: []uint64{1}},
		eventtest.Fired{Probe: start, Words: []uint64{2, 7}},
		eventtest.Fired{Probe: end, Words: []uint64{2}})
	rule := rules.Metric{
		Name: "d", Start: querytest.Spec("p:op__start"), End: querytest.Spec("p:op__end"),
		Key: []string{"id"}, Kind: rules.Duration, Scale: 1, Series: 9,
		By: []rules.Label{{Name: "a", Expr: "a"}},
	}
	var problems []string
	m := NewRecorded(rule, cgroup.Container{}, time.Now(), func(err error) {
		problems = append(problems, err.Error())
	})
	reader, err := replay.New(nil, "", nil)
	require.NoError(t, err)
	memory := bytes.NewReader(r.Bytes())
	_, err = reader.Add(memory, &replay.Process{PID: 7}, func() {})
	require.NoError(t, err)
	_, err = reader.More()
	require.NoError(t, err)
	_, err = reader.Each(t.Context(), func(e *recording.Event, f *replay.File) error {
		m.Add(e, f)
		return nil
	})
	require.NoError(t, err)
	require.Len(t, problems, 1)
	require.Contains(t, problems[0], "undefined: a")
	require.EqualValues(t, 1, m.events)
}
