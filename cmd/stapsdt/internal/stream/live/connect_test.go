//go:build linux

package live

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/paired"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/wire"

	"github.com/stretchr/testify/require"
)

// TestPatternsWithStarts: a program is asked for the starts of operations only if an expression uses these, or may use them in probes that
// the program will have.
func TestPatternsWithStarts(t *testing.T) {
	r := &eventtest.Recording{}
	start, end, tick := r.Probe("p", "op__start", "id", "tenant"), r.Probe("p", "op__end", "id", "status"), r.Probe("p", "tick", "id")
	without := []wire.Pattern{{Provider: "p", Probe: "op__end"}}
	with := append(without, wire.Pattern{Provider: "p", Probe: "op__start"})
	for _, c := range []struct {
		where string
		has   []*recording.Probe
		want  []wire.Pattern
	}{
		{"", []*recording.Probe{start, end}, without},
		{"status == 1", []*recording.Probe{start, end, tick}, without},
		{"elapsed > 1ms", []*recording.Probe{start, end}, with},
		{"start.tenant == 1", []*recording.Probe{start, end}, with},
		{"elapsed > 1ms", []*recording.Probe{end}, without},
		{"tenant == 1", []*recording.Probe{start, end}, without},
		{"start.tenant == 1", []*recording.Probe{tick}, with},
	} {
		n := &replay.Needs{Starts: true, Where: c.where}
		n.Pairing = paired.Of(n, c.where)
		f, err := connect(&console.Console{}, &query.Config{Target: query.Target{Names: []string{"none"}, All: true}, Specs: querytest.Specs("p:op__end"), Where: c.where}, n)
		require.NoError(t, err)
		require.Equal(t, c.want, f.patternsFor(c.has), c.where)
		f.Close()
	}
}

// TestPatterns: however many specs there are, a program takes what selects their probes.
func TestPatterns(t *testing.T) {
	specs := func(n int, format string) (all []spec.Spec) {
		for i := range n {
			all = append(all, querytest.Spec(fmt.Sprintf(format, i)))
		}
		return all
	}
	require.Equal(t, []wire.Pattern{{Provider: "p", Probe: "a"}, {Provider: "p", Probe: "b"}}, patterns(spec.All(querytest.Specs("p:a", "p:b", "p:a"))))
	require.Len(t, patterns(specs(wire.MaxPatterns, "p:probe%d")), wire.MaxPatterns)
	require.Equal(t, []wire.Pattern{{Provider: "p", Probe: "*"}}, patterns(specs(300, "p:probe%d")))
	require.Equal(t, []wire.Pattern{{Provider: "p", Probe: "*"}}, patterns(specs(200, "p:"+strings.Repeat("x", 500)+"%d")), "a message is too small")
	require.Equal(t, []wire.Pattern{{Provider: "*", Probe: "*"}}, patterns(specs(300, "p%d:probe")))
}
