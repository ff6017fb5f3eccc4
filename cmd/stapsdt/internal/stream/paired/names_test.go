package paired

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// TestOf: a command whose expressions have no names, or that does not ask for it, has no Pairing.
func TestOf(t *testing.T) {
	require.Nil(t, Of(&replay.Needs{Exprs: []string{"elapsed"}}, ""))
	require.Nil(t, Of(&replay.Needs{Starts: true, Exprs: []string{"1 + 1"}}, ""))
	require.Equal(t, names{"elapsed", "status"}, Of(&replay.Needs{Starts: true, Exprs: []string{"status"}}, "elapsed > 1ms"))
	for where, paired := range map[string]bool{"elapsed > 1ms": true, "start.path == x": true, "path == x": false, "": false} {
		require.Equal(t, paired, Of(&replay.Needs{Starts: true}, where) != nil, where)
	}
}

// TestComplete: an end gets what it lacks and its start has, of the start of its own operation.
func TestComplete(t *testing.T) {
	r := &eventtest.Recording{}
	all := []*recording.Probe{
		r.Probe("p", "op__start", "id", "textpath", "elapsed"), r.Probe("p", "op__end", "id", "status"), r.Probe("p", "op__done", "id", "elapsed"),
		r.Probe("q", "op__end", "id"), r.Probe("p", "tick", "id"), r.Probe("p", "bare__start"), r.Probe("p", "bare__end", "id"),
	}
	for _, c := range []struct {
		used, want string
		hidden     int
	}{
		{"id status arg1 pid unknown start.unknown", "id status", 0},
		{"elapsed", "id status elapsed", 0},
		{"elapsed id start.elapsed start.id", "id status elapsed start.elapsed start.id", 2},
		{"start.textpath textpath", "id status start.textpath textpath", 2},
	} {
		got := names(strings.Fields(c.used)).Complete(all[1], all)
		var args []string
		for _, a := range got.Args {
			args = append(args, a.Name)
		}
		require.Equal(t, c.want, strings.Join(args, " "))
		require.Equal(t, c.hidden, got.Hidden, c.used)
	}
	require.Len(t, all[1].Args, 2)
	require.Same(t, all[1], names{"id", "status"}.Complete(all[1], all))
	require.Same(t, all[2], names{"elapsed"}.Complete(all[2], all), "its own")
	for _, i := range []int{0, 3, 4, 6} {
		require.Same(t, all[i], names{"elapsed", "start.id", "textpath"}.Complete(all[i], all), all[i].Name)
	}
	require.Equal(t, all[1:3], names{}.Sides(all[0], all))
	require.Equal(t, all[:1], names{}.Sides(all[2], all))
	require.Empty(t, names{}.Sides(all[4], all))
}

// TestExplain: the error of a name that only a start gives states why the probe lacks it, and keeps its class.
func TestExplain(t *testing.T) {
	r := &eventtest.Recording{}
	all := []*recording.Probe{
		r.Probe("p", "op__start", "id", "path"), r.Probe("p", "op__end", "id"), r.Probe("p", "lone__end", "id"), r.Probe("p", "tick", "id"),
		r.Probe("p", "bare__start"), r.Probe("p", "bare__end", "id"),
	}
	for _, c := range []struct {
		probe     int
		src, want string
	}{
		{2, "elapsed > 1ms", "p:lone__end: undefined: elapsed; there is no start of p:lone beside this end (byte 0)"},
		{0, "elapsed > 1ms", "p:op__start: undefined: elapsed; only the end of an operation has it, and this is the start (byte 0)"},
		{3, "id == 1 && start.id == 1", "p:tick: undefined: start.id; in trace, count, hist, stack and rules, an end has it whose start is in the same file; latency, top and tree have id (byte 11)"},
		{1, "start.pth == 1", "p:op__end: undefined: start.pth; the arguments of the start are id, path (byte 0)"},
		{5, "elapsed > 1ms", "p:bare__end: undefined: elapsed; the start and the end have no first argument that pairs them (byte 0)"},
		{1, "status == 1", "p:op__end: undefined: status; the names are id, arg0"},
	} {
		_, err := evaluate.NewEvaluator(all[c.probe]).Parse(c.src)
		require.Error(t, err)
		explained := names{}.Explain(err, all[c.probe], all)
		require.ErrorContains(t, explained, c.want)
		require.False(t, errors.Is(explained, query.ErrUsage))
		require.ErrorIs(t, names{}.Explain(query.Usagef("%w", err), all[c.probe], all), query.ErrUsage)
	}
	other := errors.New("other")
	require.Equal(t, other, names{}.Explain(other, all[0], all))
}

// TestStarts: the starts of all ends that a spec matches are selected, by the spec or by another one.
func TestStarts(t *testing.T) {
	operations := []string{"op", "a__b", "a__e", "other"}
	for text, want := range map[string]string{
		"p:op__end": "p:op__start", "p:op__done": "p:op__start", "p:op__start": "", "p:tick": "", "p:*": "", "p:op*": "", "p:op__*": "",
		"p:op__e*": "p:op__start", "p:op__do*": "p:op__start", "p:a__*": "", "p:a__b*": "", "p:a__e*": "p:a__start", "*:*__end": "*:*__start",
		"p:*end": "p:*__start", "p:o?__*": "p:*__start", "p:[ao]*": "p:*__start", "go:main.f__end": "",
	} {
		one := querytest.Spec(text)
		starts := Starts([]spec.Spec{one})
		require.Equal(t, want, spec.Join(starts, " "), text)
		for _, operation := range operations {
			for _, end := range []string{"__end", "__done"} {
				if one.Match("p", operation+end) {
					require.True(t, one.Match("p", operation+"__start") || len(starts) == 1 && starts[0].Match("p", operation+"__start"), "%s: %s", text, operation)
				}
			}
		}
	}
}
