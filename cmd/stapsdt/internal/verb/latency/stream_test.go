package latency

import (
	"bytes"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// TestLateProbes: a program that keeps adding probes that are left out cannot flood the terminal,
// and an operation of which all probes are left out is not shown.
func TestLateProbes(t *testing.T) {
	var table eventtest.Recording
	both := []*recording.Probe{
		table.Probe("p", "op__start", "id", "a"), table.Probe("p", "op__end", "id"),
	}
	var said bytes.Buffer
	l := &latency{
		Console: &console.Console{Err: &said}, options: count.Options{},
		interval: &query.Interval{},
	}
	l.options.By = []string{"a"}
	var err error
	l.pairs, err = newPairs(querytest.Specs("p:*"), nil)
	require.NoError(t, err)
	l.kinds.pairs = l.pairs
	r := &streamed{latency: l}
	require.NoError(t, r.pair(both, ""))
	r.Number(l.kinds.all[0])
	f := replay.NewFile(&replay.Process{})
	for range 100 {
		for _, p := range []*recording.Probe{
			table.Probe("p", "op__start", "id"), table.Probe("p", "other__start", "id"),
		} {
			require.NoError(t, r.Event(&events.Event{Event: eventtest.Event(1, p, 1), File: f}))
		}
	}
	_, _, err = r.Tick()
	require.NoError(t, err)
	require.Equal(t, "stapsdt: 200 of 200 probes have no a and are left out\n", said.String())
	require.Equal(t, []bool{false, true}, []bool{l.kinds.all[0].unfit, l.kinds.all[1].unfit})
	late := table.Probe("p", "other__start", "id", "a")
	require.NoError(t, r.Event(&events.Event{Event: eventtest.Event(1, late, 1, 2), File: f}))
	require.False(t, l.kinds.all[1].unfit)
}
