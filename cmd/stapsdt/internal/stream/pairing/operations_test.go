package pairing

import (
	"bytes"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// TestOperationNames: the name of an operation stands for the probes of its start and its end,
// which it cannot be itself.
func TestOperationNames(t *testing.T) {
	for probe, want := range map[string]string{"a__start": "a", "a__end": "a", "a__done": "a", "a_end": "", "a__started": ""} {
		name, isStart := spec.NameOf(probe)
		require.Equal(t, want, name)
		require.Equal(t, probe == "a__start", isStart)
	}
	specs, err := OperationSpecs(querytest.Specs("shop:query"))
	require.NoError(t, err)
	want := querytest.Specs("shop:query__start", "shop:query__end")
	want[1].Other = querytest.Spec("shop:query__done")
	require.Equal(t, want, specs)
	_, err = OperationSpecs(querytest.Specs("shop:query__done"))
	require.ErrorContains(t, err, "give shop:query")
}

// TestKnow: all starts and ends of a kind are paired, in whatever order their probes become known.
func TestKnow(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2, 3}, {0, 2, 1, 3}, {1, 3, 2, 0}} {
		var o Operations
		var known [4]*recording.Probe // two programs have a start and an end each
		known[0], known[1], _ = sides(0)
		known[2], known[3], _ = sides(0)
		for _, i := range order {
			o.Know(known[i])
		}
		for i, p := range known {
			outcome := o.Add(eventtest.Event(1, p, uint64(1+i/2), 0, 0), nil)
			require.Equal(t, "p:op", o.Kinds()[0].Name)
			require.Equal(t, []bool{i%2 == 0, i%2 == 1}, []bool{outcome.Started != nil, outcome.HasEnded}, "%v: %d", order, i)
		}
		require.Zero(t, o.Ends())
	}
}

// TestKinds: each kind has the expressions whose variables it has. One that lacks a variable of a
// condition is left out, and with All its operations are not selected.
func TestKinds(t *testing.T) {
	for _, all := range []bool{false, true} {
		o := Operations{Where: []string{"both != 3"}, By: []string{"b", "none", "a"}, All: all}
		start, end, _ := sides(0)
		spanStart, spanEnd := eventtest.Spans()
		spanStart.Name, spanEnd.Name = "span__start", "span__end"
		probes := []*recording.Probe{start, end, spanStart, spanEnd}
		require.NoError(t, (&Operations{Where: o.Where, By: []string{"parent"}}).Check(probes))
		require.ErrorIs(t, (&Operations{}).Check([]*recording.Probe{start, spanEnd}), query.ErrNothing)
		require.ErrorContains(t, o.Check(probes), "undefined: none; ")
		f := replay.NewFile(&replay.Process{})
		for id, both := range []uint64{3, 4} {
			o.Add(eventtest.Event(1, start, uint64(id), 10, 0), f)
			outcome := o.Add(eventtest.Event(2, end, uint64(id), 20, both), f)
			k := o.Kinds()[0]
			require.Equal(t, []any{[]int{0, 2}, []int{-1, 0}, false}, []any{k.By, k.Columns, k.IsSpan()})
			require.Equal(t, []bool{both == 4, both == 4 || all}, []bool{outcome.Ended.Selected, outcome.HasEnded})
		}
		o.Add(eventtest.Event(2, end, 5, 0, 0), f)
		o.Add(eventtest.Event(3, spanStart, 1, 0), f)
		outcome := o.Add(eventtest.Event(4, spanEnd, 1, 0, 0), f)
		require.Equal(t, all, outcome.HasEnded && outcome.Ended.Start.Kind.IsSpan())
		require.False(t, outcome.Ended.Selected)
		var said bytes.Buffer
		o.Report(&console.Console{Err: &said})
		require.Equal(t, "stapsdt: 2 of 4 probes have no both and are left out\n"+
			"stapsdt: not included: 1 operation that began earlier, or whose start was lost\n", said.String())
	}
}

// TestFull: all kinds share the room for open operations. A start that takes the key of another
// needs none, and the operations of a process that has ended make room.
func TestFull(t *testing.T) {
	var r eventtest.Recording
	for _, name := range []string{"x__start", "x__end", "y__start", "y__end"} {
		r.Probe("p", name, "id")
	}
	f := fileOf(t, &r)
	x, xEnd, y := f.Recorded()[0], f.Recorded()[1], f.Recorded()[2]
	var o Operations
	for id := range uint64(query.MaxOpen) {
		o.Add(eventtest.Event(1, x, id), f)
	}
	require.Zero(t, o.Open.Full)
	refused := o.Add(eventtest.Event(2, y, 1), f)
	require.Equal(t, Outcome{}, refused)
	again := o.Add(eventtest.Event(3, x, 1), f)
	require.NotNil(t, again.Replaced)
	ended := o.Add(eventtest.Event(5, xEnd, 1), f)
	require.Same(t, again.Started, ended.Ended.Start)
	accepted := o.Add(eventtest.Event(6, y, 1), f)
	require.NotNil(t, accepted.Started)
	o.Gone(f)
	ended = o.Add(eventtest.Event(7, xEnd, 2), f)
	require.False(t, ended.HasEnded)
	for id := range uint64(query.MaxOpen) {
		o.Add(eventtest.Event(8, y, id), f)
	}
	require.Equal(t, uint64(1), o.Open.Full)
}

// TestVersions: programs of several versions may have the same operation. Those that have the
// variables of the condition are selected, in whatever order the probes become known.
func TestVersions(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2, 3}, {2, 0, 3, 1}, {2, 3, 0, 1}, {3, 2, 1, 0}} {
		for _, all := range []bool{false, true} {
			var r eventtest.Recording
			start, end, _ := sides(0)
			known := []*recording.Probe{
				start, end, r.Probe("p", "op__start", "id"), r.Probe("p", "op__end", "id"),
			}
			o := Operations{Where: []string{"a == 7", "b == 8"}, By: []string{"both"}, All: all}
			for _, i := range order {
				o.Know(known[i])
			}
			require.True(t, o.Kinds()[0].Fits(), order)
			o.Add(eventtest.Event(1, known[2], 1), nil)
			require.False(t, o.Add(eventtest.Event(2, known[3], 1), nil).Ended.Selected)
			require.NotNil(t, o.Add(eventtest.Event(3, start, 2, 7, 0), nil).Started)
			ended := o.Add(eventtest.Event(4, end, 2, 8, 5), nil).Ended
			require.True(t, ended.Selected, order)
			require.Equal(t, []string{"5"}, shown(ended.By))
		}
	}
}

// TestReuse: an operation takes the memory of one of its kind that has ended, with the values of its details, and has none of its own.
func TestReuse(t *testing.T) {
	var o Operations
	start, end := eventtest.Spans()
	o.Know(start)
	o.Know(end)
	events := []*recording.Event{eventtest.Event(1, start, 7, 3), eventtest.Event(2, end, 7, 3, 0)}
	f := replay.NewFile(&replay.Process{PID: 1})
	run := func() {
		first := o.Add(events[0], f)
		last := o.Add(events[1], f)
		if !last.HasEnded || last.Ended.Start != first.Started || first.Started.Parent != 3 || first.Started.Key.ID() != 7 {
			t.Error("the start and the end are not paired")
		}
		last.Ended.Start.Reuse()
	}
	require.Zero(t, testing.AllocsPerRun(100, run))
	one := o.Add(events[0], f).Started
	require.Nil(t, one.Note)
	other := o.Add(eventtest.Event(3, start, 8, 0), f).Started
	require.NotSame(t, one, other)
	require.Equal(t, []uint64{7, 8}, []uint64{one.Key.ID(), other.Key.ID()})
}
