package replay

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOrder: the events of several recordings come by their times, however these alternate.
func TestOrder(t *testing.T) {
	const files, events = 5, 200
	s, err := New(querytest.Specs("p:*"), "", nil)
	require.NoError(t, err)
	want := make([]int64, 0, events)
	var writers []*recorder.Writer
	var all [][]byte
	for i := range files {
		memory := make([]byte, recorder.Size(4))
		w := recorder.New(memory, 4, recorder.Options{Head: recording.Head{PID: uint32(i + 1)}, Foreign: true})
		number, ok := w.AddProbe(&recording.Probe{Provider: "p", Name: "x"})
		require.True(t, ok)
		require.Zero(t, number)
		writers, all = append(writers, w), append(all, memory)
	}
	for i := range events {
		at := int64(1000 + i)
		writers[i*i%files].AppendForeign(0, uint64(at), 1, 1, nil, nil)
		want = append(want, at)
	}
	for i, w := range writers {
		w.Close()
		_, err := s.Add(bytes.NewReader(all[i]), &Process{PID: i + 1}, func() {})
		require.NoError(t, err)
	}
	more, err := s.More()
	require.NoError(t, err)
	require.True(t, more)
	var got []int64
	for {
		e, _, err := s.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		got = append(got, int64(e.Monotonic))
	}
	require.True(t, slices.IsSorted(got))
	require.Equal(t, want, got)
}

// TestTaker: a Taker takes the events that Next returns: of the selected probes, within the window and for which the condition is true.
func TestTaker(t *testing.T) {
	var recorded eventtest.Recording
	x, y := recorded.Probe("p", "x", "n"), recorded.Probe("p", "y", "n")
	for shard := range uint64(3) {
		var fired []eventtest.Fired
		for i := range uint64(40) {
			p := []*recording.Probe{x, y}[i/2%2]
			fired = append(fired, eventtest.Fired{Probe: p, At: time.Duration(3*i+shard) * time.Second, Words: []uint64{i}})
		}
		recorded.Chunk(uint32(shard), 0, fired...)
	}
	read := func(where string, w window, byTaker bool) (seen []string, faults uint64) {
		r, err := New(querytest.Specs("p:x"), where, nil)
		require.NoError(t, err)
		r.window = w
		for pid := range 2 {
			_, err := r.Add(bytes.NewReader(recorded.Bytes()), &Process{PID: pid + 1, Executable: "/bin/x"}, func() {})
			require.NoError(t, err)
		}
		see := func(e *recording.Event) {
			seen = append(seen, fmt.Sprint(eventtest.Text(e), e.Monotonic, e.Realtime, e.PID, e.Executable))
		}
		if byTaker {
			r.Taker = func(*recording.Probe) func(*recording.Event) { return see }
		}
		more, err := r.More()
		require.NoError(t, err)
		require.True(t, more)
		failed, err := r.Each(t.Context(), func(e *recording.Event, f *File) error {
			require.False(t, byTaker)
			see(e)
			return nil
		})
		require.NoError(t, err)
		require.Nil(t, failed)
		return seen, r.Faults
	}
	for _, c := range []struct {
		where  string
		window window
		events int
	}{
		{"", always, 2 * 3 * 20}, {"n < 8", always, 2 * 3 * 4}, {"8 / n < 2", always, 2 * 3 * 17},
		{"", window{int64(12 * time.Second), int64(14 * time.Second)}, 2 * 3},
	} {
		seen, faults := read(c.where, c.window, false)
		taken, takenFaults := read(c.where, c.window, true)
		require.Len(t, seen, c.events)
		require.ElementsMatch(t, seen, taken)
		require.Equal(t, faults, takenFaults)
	}
}

// TestPodVariables: expressions have the names of the pod, which are empty where it is unknown.
func TestPodVariables(t *testing.T) {
	p := &recording.Probe{Provider: "shop", Name: "done"}
	v := evaluate.NewEvaluator(p)
	e, err := v.ParseFilter(`namespace == "shop" && pod == "web-0" && container == "app" && workload == "web" && node == "n1"`)
	require.NoError(t, err)
	none, err := v.ParseFilter(`namespace == "" && len(pod) == 0 && container == "" && workload == "" && node == ""`)
	require.NoError(t, err)
	for _, pod := range []*recording.Pod{nil, {Namespace: "shop", Name: "web-0", Container: "app", Workload: "web", Node: "n1"}} {
		v.At(&recording.Event{Probe: p, Pod: pod})
		match, fault := v.Bool(e)
		assert.False(t, fault)
		assert.Equal(t, pod != nil, match)
		match, _ = v.Bool(none)
		assert.Equal(t, pod == nil, match)
	}
}
