package timeline

import (
	"bytes"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// TestGone: what is known of the probes of a process ends with it.
func TestGone(t *testing.T) {
	w, err := create(&console.Console{Out: &bytes.Buffer{}}, "-", "chrome")
	require.NoError(t, err)
	condition, err := replay.New(nil, "", nil)
	require.NoError(t, err)
	v := &view{
		options: &Options{}, writer: w, tracks: tracks{writer: w}, args: evaluate.Arguments{},
		filters: map[*recording.Probe]*replay.Filter{}, condition: condition,
		stream: &events.Stream{Source: byMonotonic{}},
	}
	var r eventtest.Recording
	p := r.Probe("p", "x", "n")
	f := replay.NewFile(&replay.Process{})
	require.NoError(t, v.Event(&events.Event{Event: eventtest.Event(1, p, 1), File: f}))
	require.Equal(t, []int{1, 1}, []int{len(v.args), len(v.filters)})
	f.EndPast(0, []*recording.Probe{p})
	v.Gone(f)
	require.Empty(t, v.args)
	require.Empty(t, v.filters)
}

// byMonotonic is a source whose events are related by CLOCK_MONOTONIC.
type byMonotonic struct{ events.Source }

func (byMonotonic) Clock(e *recording.Event) time.Duration { return e.Monotonic }
