package pairing

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// sides returns the start and the end of a kind. Both have id and both, the start has a, and the
// end has b.
func sides(kind int) (start, end *recording.Probe, all []Side) {
	var r eventtest.Recording
	start, end = r.Probe("p", "op__start", "id", "a", "both"), r.Probe("p", "op__end", "id", "b", "both")
	return start, end, []Side{{start, kind, true}, {end, kind, false}}
}

// shown returns values as texts.
func shown(values []evaluate.Value) (all []string) {
	for i := range values {
		all = append(all, values[i].ForText())
	}
	return all
}

// TestSides: the end evaluates what it has and the start the rest, or the other way round for
// AtStart. A condition that is false at the start refuses an open operation, also if the end is
// to evaluate it.
func TestSides(t *testing.T) {
	for _, test := range []struct {
		where, by                []string
		atStart                  bool
		want                     []string // By, or nil if the operation is not selected
		selected, meets, decided bool     // of the start
	}{
		{nil, []string{"a", "b", "both"}, false, []string{"10", "20", "200"}, true, true, true},
		{nil, []string{"a", "both"}, true, []string{"10", "100"}, true, true, true},
		{[]string{"both == 200"}, []string{"b"}, false, []string{"20"}, true, false, true},
		{[]string{"both == 100"}, []string{"a"}, true, []string{"10"}, true, true, true},
		{[]string{"a == 10", "b == 20"}, []string{"b"}, false, []string{"20"}, true, true, false},
		{[]string{"a == 11", "b == 20"}, nil, false, nil, false, false, true},
		{[]string{"both == 200", "b == 20"}, []string{"b"}, false, []string{"20"}, true, false, true},
		{[]string{"b == 20", "both == 200"}, []string{"b"}, false, []string{"20"}, true, false, true},
	} {
		start, end, all := sides(0)
		plan := Plan{Pairing: query.Pairing{Key: []string{"id"}, Where: test.where, By: test.by, AtStart: test.atStart}, All: true}
		p, err := NewPairs(plan, all)
		require.NoError(t, err)
		o := p.Add(eventtest.Event(1, start, 1, 10, 100), nil).Started
		meets, decided := o.Meets()
		require.Equal(t, []bool{test.selected, test.meets, test.decided}, []bool{o.Selected(), meets, decided}, "%+v", test)
		ended := p.Add(eventtest.Event(5, end, 1, 20, 200), nil).Ended
		require.Equal(t, test.want != nil, ended.Selected, "%+v", test)
		require.Equal(t, test.want, shown(ended.By))
	}
}

// TestAtStart: what counts operations in flight cannot ask for what their ends have.
func TestAtStart(t *testing.T) {
	_, _, all := sides(0)
	for _, p := range []query.Pairing{{By: []string{"b"}}, {Where: []string{"b == 20"}}} {
		p.Key = []string{"id"}
		_, err := NewPairs(Plan{Pairing: p}, all)
		require.NoError(t, err)
		p.AtStart = true
		_, err = NewPairs(Plan{Pairing: p}, all)
		require.ErrorContains(t, err, query.OnlyStart)
	}
}

// TestRestart: a start takes the key of an open operation, which then cannot end, and only what
// has the same key, process, file and kind is paired.
func TestRestart(t *testing.T) {
	start, end, all := sides(0)
	_, otherEnd, more := sides(1)
	p, err := NewPairs(Plan{Pairing: query.Pairing{Key: []string{"id"}}}, append(all, more...))
	require.NoError(t, err)
	f := &replay.File{}
	first := p.Add(eventtest.Event(1, start, 1, 0, 0), f)
	second := p.Add(eventtest.Event(3, start, 1, 0, 0), f)
	require.Same(t, first.Started, second.Replaced)
	require.Nil(t, first.Replaced)
	foreign := eventtest.Event(4, end, 1, 0, 0)
	require.False(t, p.Add(foreign, &replay.File{}).HasEnded)
	foreign.PID = 2
	require.False(t, p.Add(foreign, f).HasEnded)
	require.False(t, p.Add(eventtest.Event(4, end, 2, 0, 0), f).HasEnded)
	require.False(t, p.Add(eventtest.Event(4, otherEnd, 1, 0, 0), f).HasEnded)
	want := Outcome{HasEnded: true, Ended: Ended{Start: second.Started, Took: 3, By: []evaluate.Value{}, Selected: true}}
	require.Equal(t, want, p.Add(eventtest.Event(6, end, 1, 0, 0), f))
	require.False(t, p.Add(eventtest.Event(7, end, 1, 0, 0), f).HasEnded)
	require.Equal(t, query.Totals{Starts: 2, Pairs: 1, Ends: 4}, p.Totals(0))
	require.Equal(t, query.Totals{Ends: 1}, p.Totals(1))
}

// TestUnevaluated: an operation for which an expression divides by zero is not selected, and
// counted. Its end is no end without a start.
func TestUnevaluated(t *testing.T) {
	for _, test := range []struct {
		pairing           query.Pairing
		a, b, unevaluated uint64
		totals            query.Totals
	}{
		{query.Pairing{Key: []string{"id"}, Where: []string{"1 / a == 1"}, By: []string{"1 / b"}}, 1, 1, 0, query.Totals{Starts: 1, Pairs: 1}},
		{query.Pairing{Key: []string{"1 / id"}}, 1, 1, 2, query.Totals{}},
		{query.Pairing{Key: []string{"id"}, Where: []string{"1 / a == 1"}}, 0, 1, 1, query.Totals{}},
		{query.Pairing{Key: []string{"id"}, Where: []string{"1 / b == 1"}}, 1, 0, 1, query.Totals{Starts: 1, Pairs: 1}},
		{query.Pairing{Key: []string{"id"}, By: []string{"1 / a"}}, 0, 1, 1, query.Totals{}},
		{query.Pairing{Key: []string{"id"}, By: []string{"1 / b"}}, 1, 0, 1, query.Totals{Starts: 1, Pairs: 1}},
	} {
		start, end, all := sides(0)
		p, err := NewPairs(Plan{Pairing: test.pairing}, all)
		require.NoError(t, err)
		p.Add(eventtest.Event(1, start, 0, test.a, 0), nil)
		ended := p.Add(eventtest.Event(2, end, 0, test.b, 0), nil).HasEnded
		require.Equal(t, []any{test.unevaluated == 0, test.unevaluated, test.totals}, []any{ended, p.Unevaluated, p.Totals(0)}, "%+v", test)
	}
}

// TestUnfitKinds: a kind that lacks a variable is left out with both of its sides, and it is an
// error if all kinds are.
func TestUnfitKinds(t *testing.T) {
	var r eventtest.Recording
	plan := Plan{Pairing: query.Pairing{Key: []string{"id"}, Where: []string{"b == 2"}}, Unfit: &query.Unfit{}}
	start, _, all := sides(0)
	bad := []Side{{r.Probe("p", "bad__start", "id", "b"), 1, true}, {r.Probe("p", "bad__end", "b"), 1, false}}
	p, err := NewPairs(plan, append(bad, all...))
	require.NoError(t, err)
	require.Equal(t, []bool{false, true}, []bool{p.Unfit(0), p.Unfit(1)})
	require.Equal(t, "2 of 4 probes have no id and are left out", plan.Unfit.Take(4))
	require.Nil(t, p.Add(eventtest.Event(1, bad[0].Probe, 1, 2), nil).Started)
	require.NotNil(t, p.Add(eventtest.Event(1, start, 1, 0, 0), nil).Started)
	_, err = NewPairs(plan, bad)
	require.ErrorContains(t, err, "p:bad__end: undefined: id")
	_, err = NewPairs(plan, all[:1])
	require.ErrorIs(t, err, query.ErrNothing)
}

// TestDetails: an open operation has its parent, By as far as the start has them, and the start's
// other arguments.
func TestDetails(t *testing.T) {
	var r eventtest.Recording
	start, end := r.Probe("p", "op__start", "id", "parent", "a", "c"), r.Probe("p", "op__end", "id", "b")
	pairing := query.Pairing{Key: []string{"arg0"}, By: []string{"b", "1 / a", "arg3"}, Details: true, Where: []string{"a != 9"}}
	p, err := NewPairs(Plan{Pairing: pairing}, []Side{{start, 0, true}, {end, 0, false}})
	require.NoError(t, err)
	f := replay.NewFile(&replay.Process{})
	f.Passed(9)
	o := p.Add(eventtest.Event(4, start, 7, 6, 1, 5), f).Started
	require.Equal(t, &Columns{Names: []string{"1 / a", "arg3", "a"}, By: 2, Key: "id"}, o.Columns)
	require.Equal(t, uint64(6), o.Parent)
	object, _ := json.Marshal(o.JSON())
	require.JSONEq(t, `{"nanoseconds":5,"pid":1,"goroutine":1,"key":7,"by":{"1 / a":1,"arg3":5},"args":{"a":1}}`, string(object))
	p.Add(eventtest.Event(4, start, 8, 6, 9, 5), f) // is not selected
	require.Equal(t, 2, p.Open.Len())
	require.Equal(t, []*Operation{o}, slices.Collect(p.Selected()))
}

// TestUnreadable: what could not be read pairs nothing, and meets no condition. It is shown as such.
func TestUnreadable(t *testing.T) {
	start, end, all := sides(0)
	asked := query.Pairing{Key: []string{"id"}, Where: []string{"b != 1 || both == 3"}, By: []string{"a", "1 + a"}}
	p, err := NewPairs(Plan{Pairing: asked}, all)
	require.NoError(t, err)
	pair := func(from, to uint64) Outcome {
		e := eventtest.Event(1, start, 0, 0, 3)
		e.Unreadable = from
		p.Add(e, nil)
		e = eventtest.Event(2, end, 0, 0, 3)
		e.Unreadable = to
		return p.Add(e, nil)
	}
	require.True(t, pair(0b000, 0b000).HasEnded)
	require.Equal(t, []any{false, uint64(2)}, []any{pair(0b001, 0b001).HasEnded, p.Unevaluated})
	require.Equal(t, []any{false, uint64(3)}, []any{pair(0b000, 0b010).HasEnded, p.Unevaluated})
	require.Equal(t, []any{false, uint64(4)}, []any{pair(0b010, 0b000).HasEnded, p.Unevaluated})
	p, err = NewPairs(Plan{Pairing: query.Pairing{Key: []string{"id"}, By: []string{"a"}}}, all)
	require.NoError(t, err)
	ended := pair(0b010, 0b000)
	require.Equal(t, []string{"<unreadable>"}, shown(ended.Ended.By))
}

// TestUnfitSides: programs of several versions may have the same operations. A side that lacks a
// variable is left out alone, as long as others of its kind have it, whichever comes first.
func TestUnfitSides(t *testing.T) {
	var r eventtest.Recording
	old := []Side{{r.Probe("p", "op__start", "id"), 0, true}, {r.Probe("p", "op__end", "id", "b"), 0, false}}
	for _, oldFirst := range []bool{true, false} {
		start, end, all := sides(0)
		all = append(all, old...)
		if oldFirst {
			slices.Reverse(all)
		}
		asked := query.Pairing{Key: []string{"id"}, Where: []string{"both != 3"}, By: []string{"a"}, Details: true}
		plan := Plan{Pairing: asked, Unfit: &query.Unfit{}}
		p, err := NewPairs(plan, all)
		require.NoError(t, err)
		require.False(t, p.Unfit(0))
		require.Equal(t, 2, plan.Unfit.Probes)
		require.NotNil(t, p.Add(eventtest.Event(1, start, 1, 7, 0), nil).Started)
		require.Equal(t, []string{"7"}, shown(p.Add(eventtest.Event(2, end, 1, 0, 0), nil).Ended.By))
		require.Equal(t, Outcome{}, p.Add(eventtest.Event(1, old[0].Probe, 1), nil))
	}
}
