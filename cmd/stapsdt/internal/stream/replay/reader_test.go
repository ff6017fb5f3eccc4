package replay

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOrder: the events of several recordings come by their times, however these alternate.
func TestOrder(t *testing.T) {
	const files, events = 5, 200
	s, err := New([]string{"p:*"}, "", nil)
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

// TestPodVariables: expressions have the names of the pod, which are empty where it is unknown.
func TestPodVariables(t *testing.T) {
	p := &recording.Probe{Provider: "shop", Name: "done"}
	v := NewEvaluator(p)
	e, err := v.ParseFilter(`namespace == "shop" && pod == "web-0" && container == "app"`)
	require.NoError(t, err)
	none, err := v.ParseFilter(`namespace == "" && len(pod) == 0 && container == ""`)
	require.NoError(t, err)
	for _, pod := range []*recording.Pod{nil, {Namespace: "shop", Name: "web-0", Container: "app"}} {
		v.At(&recording.Event{Probe: p, Pod: pod})
		match, fault := v.Bool(e)
		assert.False(t, fault)
		assert.Equal(t, pod != nil, match)
		match, _ = v.Bool(none)
		assert.Equal(t, pod == nil, match)
	}
}
