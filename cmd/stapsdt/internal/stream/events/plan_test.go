package events

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// TestNewPlan: a plan selects the starts and the ends of operations, and takes the parts of the condition from the source.
func TestNewPlan(t *testing.T) {
	config := query.Config{Where: `a == 1 && (b || c)`}
	p, err := NewPlan(config, []string{"n"}, []string{"a,b", "c"})
	require.NoError(t, err)
	specs := querytest.Specs("*:*__start", "*:*__end")
	specs[1].Other = querytest.Spec("*:*__done")
	require.Equal(t, &Plan{Config: query.Config{Specs: specs}, Where: []string{"a == 1", "(b || c)"}, By: []string{"n"}, Key: []string{"a", "b", "c"}}, p)
	for _, c := range []struct{ where, name, want string }{
		{"", "go:main.f", "selects functions"}, {"a ==", "p:op", "a =="}, {"", "p:op__start", "give p:op"},
	} {
		_, err := NewPlan(query.Config{Where: c.where, Specs: querytest.Specs("p:x", c.name)}, nil, nil)
		require.ErrorContains(t, err, c.want)
	}
	start, end := eventtest.Spans()
	p, err = NewPlan(query.Config{}, []string{"tid + 1"}, nil)
	require.NoError(t, err)
	require.Equal(t, "tid", p.Config.Kernel)
	p, err = NewPlan(query.Config{}, nil, []string{"a,thread"})
	require.NoError(t, err)
	require.Equal(t, "--key thread", p.Config.Kernel)
	_, err = NewPlan(query.Config{}, nil, []string{"a b"})
	require.ErrorContains(t, err, "a b")
	o := (&Plan{Where: []string{"error == 0"}}).Options(replay.From{Address: "http://h"})
	require.True(t, o.Goroutines)
	require.Equal(t, "http://h", o.From.Address)
	require.NoError(t, o.Needs.All([]*recording.Probe{start, end}))
	o = (&Plan{Where: []string{"nothing == 0"}}).Options(replay.From{})
	require.ErrorContains(t, o.Needs.All([]*recording.Probe{start, end}), "nothing")
}

// TestLinePlan: two lines are an operation of a goroutine.
func TestLinePlan(t *testing.T) {
	p, err := NewPlan(query.Config{Specs: querytest.Specs("go:a.go:1", "go:a.go:5", "go:main.f:7", "go:b/a.go:5")}, nil, nil)
	require.NoError(t, err)
	require.Equal(t, []string{query.Goroutine}, p.Key)
	var names []string
	for _, line := range p.Operations().Lines {
		names = append(names, line.String())
	}
	require.Equal(t, []string{"go:a.go:1-5", "go:main.f:7-b/a.go:5"}, names)
	p, err = NewPlan(query.Config{Specs: querytest.Specs("go:a.go:1", "go:a.go:5")}, nil, []string{"id"})
	require.NoError(t, err)
	require.Equal(t, []string{"id"}, p.Key)
	for want, names := range map[string][]string{
		"a line has no end: give a second SPEC after go:a.go:3": {"go:a.go:1", "go:a.go:2", "go:a.go:3"},
		"go:a.go:2 is given twice":                              {"go:a.go:1", "go:a.go:2", "go:a.go:2", "go:a.go:3"},
		"p:x is no line":                                        {"go:a.go:1", "p:x"},
	} {
		_, err := NewPlan(query.Config{Specs: querytest.Specs(names...)}, nil, nil)
		require.ErrorContains(t, err, want)
	}
}

// TestFunctions: functions are selected by all names or by none.
func TestFunctions(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  bool
		err   string
	}{
		{nil, false, ""}, {[]string{"p:x", "p:y"}, false, ""}, {[]string{"go:main.f", "go:main.*"}, true, ""},
		{[]string{"go:a.go:1", "go:a.go:2"}, false, ""}, {[]string{"go:a.go:1", "go:main.f"}, false, "go:a.go:1 selects no functions"},
		{[]string{"go:main.f", "p:x"}, false, "p:x selects no functions, but other SPECs do"}, {[]string{"p:x", "go:main.f"}, false, "p:x selects no functions, but other SPECs do"},
	} {
		got, err := Functions(querytest.Specs(c.names...))
		require.Equal(t, c.want, got)
		if c.err == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, query.ErrUsage)
		require.ErrorContains(t, err, c.err)
	}
}

// TestNewCalls: each function is selected with its returns, and the parts of the condition are evaluated for both.
func TestNewCalls(t *testing.T) {
	specs := querytest.Specs("go:main.f", "go:main.f:return", "go:main.g", "go:main.g:return")
	config := query.Config{Where: "n > 1 && failed", Specs: []spec.Choice{specs[0], specs[2]}}
	config, o, err := NewCalls(config)
	require.NoError(t, err)
	require.Equal(t, query.Config{Specs: specs}, config)
	require.Equal(t, Options{Goroutines: true, Paired: true, Calls: &Calls{Where: []string{"n > 1", "failed"}}}, o)
	_, _, err = NewCalls(query.Config{Specs: specs[1:2]})
	require.EqualError(t, err, query.Usagef("tree pairs calls with their returns: give go:main.f").Error())
	_, _, err = NewCalls(query.Config{Where: "n >", Specs: specs[:1]})
	require.Error(t, err)
}
