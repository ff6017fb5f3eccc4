//go:build linux

package luaprobe

import (
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	rt "github.com/arnodel/golua/runtime"
	"github.com/stretchr/testify/require"
)

// TestInFlight: coroutines whose functions have not returned have no goroutine but their own while they are observed.
func TestInFlight(t *testing.T) {
	p, probes := load(t)
	entries := 0
	stop := p.Observe(func(e *stapsdt.Event) {
		require.Equal(t, []string{"file", "function", "line", "coroutine"}, eventtest.Names(e.Probe()))
		entries++
	}, &probes.entry.Probe)
	r, function := compile(t, `return function(n)
		local all = {}
		for i = 1, n do
			all[i] = coroutine.create(function() coroutine.yield() end)
			coroutine.resume(all[i])
		end
		return function() coroutine.resume(all[1]) end
	end`)
	tracer, err := probes.Attach(r)
	require.NoError(t, err)
	defer tracer.Close()
	const coroutines = 2000
	goroutines := testenv.Goroutines() // of earlier tests, some may not have ended
	finish, err := rt.Call1(r.MainThread(), function, rt.IntValue(coroutines))
	require.NoError(t, err)
	require.Equal(t, 1+coroutines, entries)
	require.LessOrEqual(t, testenv.Goroutines(), goroutines)
	frames := func() (n int) {
		for _, th := range tracer.threads {
			n += len(th.frames)
		}
		return n
	}
	require.Equal(t, coroutines, frames())
	stop()
	// A call of any one function removes all hooks, although the others do not run.
	_, err = rt.Call1(r.MainThread(), finish)
	require.NoError(t, err)
	require.Zero(t, frames())
	for _, th := range tracer.threads {
		require.False(t, th.installed)
	}
}

// TestHookOfTheProgram: a hook that the program has installed stays, and is called as often as
// without an observer. What has no hook is reported.
func TestHookOfTheProgram(t *testing.T) {
	p, probes := load(t)
	r, function := compile(t, `
		local calls = 0
		local function step() end
		local function other() step() end
		return function()
			calls = 0
			debug.sethook(function() calls = calls + 1 end, "cr")
			step() step()
			local n = calls
			coroutine.wrap(other)()
			return n
		end`)
	tracer, err := probes.Attach(r)
	require.NoError(t, err)
	defer tracer.Close()
	calls := func() int64 {
		n, err := rt.Call1(r.MainThread(), function)
		require.NoError(t, err)
		return n.AsInt()
	}
	calls() // from now on the hook is there already
	untraced := calls()
	require.Positive(t, untraced)
	others := 0
	defer p.Observe(func(e *stapsdt.Event) {
		if e.Arg(1).String() == "other" {
			others++
		}
	}, &probes.entry.Probe)()
	for tracer.armed || others == 0 { // until the hooks were installed where there was none
		require.Equal(t, untraced, calls())
	}
	require.Equal(t, untraced, calls())
}
