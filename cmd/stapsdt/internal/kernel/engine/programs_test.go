//go:build linux

package engine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

// TestSettle: a probe that does not fit refuses nothing to those that do, unless none is left for a
// spec. The error names the file and the process.
func TestSettle(t *testing.T) {
	for name, c := range map[string]struct {
		specs    []string
		unfit    []string
		err      string
		problems []string
		sites    int
	}{
		"one of two files":  {[]string{"app:*"}, []string{"app:b"}, "", []string{"app:b in /b (process 2) is not included: undefined: x"}, 1},
		"none fits":         {[]string{"app:*"}, []string{"app:a", "app:b"}, "app:a in /a (process 1): undefined: x", nil, 0},
		"none of a spec":    {[]string{"app:a", "app:b"}, []string{"app:b"}, "app:b in /b (process 2): undefined: x", nil, 1},
		"one of one of two": {[]string{"app:a", "app:*"}, []string{"app:b"}, "", []string{"app:b in /b (process 2) is not included: undefined: x"}, 1},
		"all":               {[]string{"app:*"}, nil, "", nil, 2},
		"there is none":     {[]string{"other:*"}, []string{"app:a"}, "", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{mapped: map[int][]*target.File{1: {newFile("/a", "a")}, 2: {newFile("/b", "b")}}}
			e := newEngine(t, w, Options{})
			s := subscribe(t, c.specs...)
			s.unfit = map[string]bool{}
			for _, probe := range c.unfit {
				s.unfit[probe] = true
			}
			subscription := e.add(s)
			require.NoError(t, e.scan())
			err := e.Settle(subscription)
			if c.err != "" {
				require.EqualError(t, err, c.err)
				require.ErrorIs(t, err, errUnfit)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, c.problems, s.problems)
			require.Equal(t, c.sites, subscription.Sites())
		})
	}
}

// TestSettleCount: a function whose returns have programs of their own counts as one probe.
func TestSettleCount(t *testing.T) {
	f := newFile("/app", "f:return", "f:return", "g:return", "g:return", "g:return")
	for i := range f.Probes {
		operand := sdt.Operand{Kind: sdt.OperandConstant, Text: fmt.Sprint(i)}
		f.Probes[i].Args = []sdt.Arg{{Name: "err", Size: 8, Operand: operand}}
	}
	w := &world{mapped: map[int][]*target.File{1: {f}}}
	e := newEngine(t, w, Options{})
	s := subscribe(t, "app:*")
	s.unfit, s.why = map[string]bool{"app:g:return": true}, &expr.Error{Msg: "undefined: ret0"}
	subscription := e.add(s)
	require.NoError(t, e.scan())
	require.Len(t, w.loaded, 2)
	require.NoError(t, e.Settle(subscription))
	require.Equal(t, []string{"1 of 2 probes has no ret0 and is left out"}, s.problems)
}

// TestManySites: a program is made once for the thousands of sites that a probe may have in a file.
func TestManySites(t *testing.T) {
	const sites = 1000
	w := &world{mapped: map[int][]*target.File{1: {newFile("/app", slices.Repeat([]string{"a", "b"}, sites/2)...)}}}
	e := newEngine(t, w, Options{})
	subscription := e.add(subscribe(t, "app:*"))
	require.NoError(t, e.scan())
	require.Equal(t, sites, subscription.Sites())
	require.Len(t, w.loaded, 2)
	require.LessOrEqual(t, w.shaped, 2*2, "twice for each program")
}

// TestManyRefused: the reason why many probes are not included is given once.
func TestManyRefused(t *testing.T) {
	problems := func(n int) (all []string) {
		var names []string
		unfit := map[string]bool{}
		for i := range n {
			names = append(names, fmt.Sprintf("p%d", i))
			unfit["app:"+names[i]] = true
		}
		w := &world{mapped: map[int][]*target.File{1: {newFile("/a", append(names, "fits")...)}}}
		e := newEngine(t, w, Options{})
		of := subscribe(t, "app:*")
		of.unfit = unfit
		subscription := e.add(of)
		require.NoError(t, e.scan())
		require.NoError(t, e.Settle(subscription))
		return of.problems
	}
	require.Len(t, problems(10), 10)
	require.Equal(t, []string{"app:p0 in /a (process 1) and 10 other probes are not included: undefined: x"}, problems(11))
}
