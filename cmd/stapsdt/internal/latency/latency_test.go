//go:build linux

package latency

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"

	"github.com/stretchr/testify/require"
)

// TestDone: an operation may end with __done.
func TestDone(t *testing.T) {
	p, err := newPairs([]string{"p:query"}, "")
	require.NoError(t, err)
	s, err := probes.NewSelector(p.specs, p.others)
	require.NoError(t, err)
	for name, want := range map[string]bool{"query__end": true, "query__done": true, "query__start": false, "query__den": false} {
		require.Equal(t, want, s.Specs[1].Match("p", name), name)
	}
	k := kinds{pairs: p}
	for _, name := range []string{"query__start", "query__done"} {
		kind, err := k.find(s, "p:"+name, name == "query__start")
		require.NoError(t, err)
		require.Zero(t, kind)
	}
	require.Len(t, k.all, 1)
	require.Equal(t, "p:query__start → p:query__done", k.all[0].String())
}

// TestPairs: what pairs a start and an end is decided by their names, or has to be said.
func TestPairs(t *testing.T) {
	p, err := newPairs([]string{"p:query__start", "p:query__done"}, "")
	require.NoError(t, err)
	require.Equal(t, "arg0", p.key)
	for _, names := range [][]string{nil, {"p:a", "p:b", "p:c"}, {"p:a", "p:a"}, {"p:begin", "p:done"}, {"p:a__start", "p:b__end"}} {
		_, err := newPairs(names, "")
		require.Error(t, err, "%q", names)
	}
	p, err = newPairs([]string{"p:begin", "p:done"}, "thread")
	require.NoError(t, err)
	require.Equal(t, "thread", p.key)
}

// TestKinds: with names that match several probes, each start has its own end.
func TestKinds(t *testing.T) {
	p, err := newPairs([]string{"p:*"}, "")
	require.NoError(t, err)
	s, err := probes.NewSelector(p.specs, p.others)
	require.NoError(t, err)
	k := kinds{pairs: p}
	numbers := map[string]uint32{}
	for _, name := range []string{"read__start", "write__end", "read__end", "write__start"} {
		kind, err := k.find(s, "p:"+name, name[len(name)-5:] == "start")
		require.NoError(t, err)
		numbers[name] = kind
	}
	require.Equal(t, numbers["read__start"], numbers["read__end"])
	require.Equal(t, numbers["write__start"], numbers["write__end"])
	require.NotEqual(t, numbers["read__start"], numbers["write__start"])
}

// TestHeading: a path is in a heading once.
func TestHeading(t *testing.T) {
	for _, test := range []struct {
		o    operation
		want string
	}{
		{operation{start: "a:job__start", end: "a:job__end"}, "a:job__start → a:job__end"},
		{operation{start: "/usr/lib/postgres:p:query__start", end: "/usr/lib/postgres:p:query__done"}, "/usr/lib/postgres:p:query__start → p:query__done"},
		{operation{start: "/a:p:x", end: "/b:p:y"}, "/a:p:x → /b:p:y"},
	} {
		require.Equal(t, test.want, test.o.String())
	}
}
