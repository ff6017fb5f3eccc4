package events

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// TestNewPlan: a plan selects the starts and the ends of operations, and takes the parts of the condition from the source.
func TestNewPlan(t *testing.T) {
	config := query.Config{Where: `a == 1 && (b || c)`}
	p, err := NewPlan(&config, nil, []string{"n"})
	require.NoError(t, err)
	require.Equal(t, &Plan{Where: []string{"a == 1", "(b || c)"}, By: []string{"n"}}, p)
	require.Equal(t, query.Config{Specs: []string{"*:*__start", "*:*__end"}, Others: map[string]string{"*:*__end": "*:*__done"}}, config)
	for _, c := range []struct{ where, name, want string }{
		{"", "go:main.f", "selects functions"}, {"a ==", "p:op", "a =="}, {"", "p", "p"}, {"", "p:op__start", "give p:op"},
	} {
		_, err := NewPlan(&query.Config{Where: c.where}, []string{"p:x", c.name}, nil)
		require.ErrorContains(t, err, c.want)
	}
	start, end := eventtest.Spans()
	o := (&Plan{By: []string{"tid + 1"}}).Options(replay.From{})
	require.Equal(t, []any{true, "tid"}, []any{o.Goroutines, o.Needs.Kernel})
	o = (&Plan{Where: []string{"error == 0"}}).Options(replay.From{Address: "http://h"})
	require.Equal(t, []string{"http://h", ""}, []string{o.From.Address, o.Needs.Kernel})
	require.NoError(t, o.Needs.All([]*recording.Probe{start, end}))
	o = (&Plan{Where: []string{"nothing == 0"}}).Options(replay.From{})
	require.ErrorContains(t, o.Needs.All([]*recording.Probe{start, end}), "nothing")
}

// TestFunctions: functions are selected by all names or by none.
func TestFunctions(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  bool
		err   string
	}{
		{nil, false, ""}, {[]string{"p:x", "wrong"}, false, ""}, {[]string{"go:main.f", "go:main.*"}, true, ""},
		{[]string{"go:main.f", "p:x"}, false, "p:x selects probes, but other SPECs select functions"}, {[]string{"p:x", "go:main.f"}, false, "p:x selects probes, but other SPECs select functions"},
	} {
		got, err := Functions(c.names)
		require.Equal(t, c.want, got)
		if c.err == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, console.ErrUsage)
		require.ErrorContains(t, err, c.err)
	}
}

// TestNewCalls: each function is selected with its returns, and the parts of the condition are evaluated for both.
func TestNewCalls(t *testing.T) {
	config := query.Config{Where: "n > 1 && failed", Specs: []string{"other"}}
	o, err := NewCalls(&config, []string{"go:main.f", "go:main.g"})
	require.NoError(t, err)
	require.Equal(t, query.Config{Specs: []string{"go:main.f", "go:main.f:return", "go:main.g", "go:main.g:return"}}, config)
	require.Equal(t, Options{Goroutines: true, Calls: &Calls{Where: []string{"n > 1", "failed"}}}, o)
	_, err = NewCalls(&query.Config{}, []string{"go:main.f:return"})
	require.EqualError(t, err, console.Usagef("tree pairs calls with their returns: give go:main.f").Error())
	_, err = NewCalls(&query.Config{Where: "n >"}, []string{"go:main.f"})
	require.Error(t, err)
}
