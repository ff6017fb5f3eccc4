//go:build linux

package luaprobe

import (
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/arnodel/golua/lib"
	rt "github.com/arnodel/golua/runtime"
	"github.com/stretchr/testify/require"
)

func load(t testing.TB) (*stapsdt.Provider, *Probes) {
	t.Helper()
	p := stapsdt.NewProvider("luaprobe", stapsdt.WithDir(t.TempDir()))
	probes := New(p)
	require.NoError(t, p.Load())
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p, probes
}

// compile makes an interpreter and a function in it.
func compile(t testing.TB, source string) (*rt.Runtime, rt.Value) {
	t.Helper()
	r := rt.New(io.Discard)
	t.Cleanup(lib.LoadAll(r))
	program, err := r.CompileAndLoadLuaChunk("test", []byte(source), rt.TableValue(r.GlobalEnv()))
	require.NoError(t, err)
	function, err := rt.Call1(r.MainThread(), rt.FunctionValue(program))
	require.NoError(t, err)
	return r, function
}

// attach counts at all places of a probe.
func attach(t testing.TB, p *stapsdt.Provider, name string) *tracetest.Counter {
	t.Helper()
	tracetest.NeedUprobes(t)
	notes, err := sdt.ReadFile(p.Path())
	require.NoError(t, err)
	note := notes[slices.IndexFunc(notes, func(n sdt.Site) bool { return n.Name == name })]
	c, err := tracetest.CountUprobe(p.Path(), note.Offset)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

const adder = `local function add(a, b) return a + b end
return function(n) local x = 0 for i = 1, n do x = add(x, i) end return x end`

func TestNothingIsInstalledWhileNobodyTraces(t *testing.T) {
	_, probes := load(t)
	r, function := compile(t, adder)
	run := func() {
		_, err := rt.Call1(r.MainThread(), function, rt.IntValue(10))
		require.NoError(t, err)
	}
	bare := testing.AllocsPerRun(100, run)
	tracer, err := probes.Attach(r)
	require.NoError(t, err)
	defer tracer.Close()
	tracer.install() // as for a tracer that has come and gone
	require.Equal(t, bare, testing.AllocsPerRun(100, run))
	require.Zero(t, r.MainThread().DebugHookFlags)
	require.False(t, tracer.Tracing())
}

// TestTracersComeAndGo runs a program all the while. Under the race detector it shows
// that the hooks are touched by the interpreter alone.
func TestTracersComeAndGo(t *testing.T) {
	p, probes := load(t)
	r, function := compile(t, `local function step() end
		local function generate() while true do step() coroutine.yield(1) end end
		return function()
			local next = coroutine.wrap(generate)
			while go() do step() next() end
		end`)
	tracer, err := probes.Attach(r)
	require.NoError(t, err)
	var stop, tracing atomic.Bool
	goOn := func(_ *rt.Thread, c *rt.GoCont) (rt.Cont, error) {
		tracing.Store(tracer.Tracing())
		return c.PushingNext1(r, rt.BoolValue(!stop.Load())), nil
	}
	r.SetEnvGoFunc(r.GlobalEnv(), "go", goOn, 0, false)
	done := make(chan error)
	go func() {
		_, err := rt.Call1(r.MainThread(), function)
		tracer.Close()
		done <- err
	}()
	for range 3 {
		entry, ret := attach(t, p, "function__entry"), attach(t, p, "function__return")
		for name, c := range map[string]*tracetest.Counter{"entry": entry, "return": ret} {
			require.Eventually(t, func() bool {
				n, err := c.Count()
				return err == nil && n > 100 && tracing.Load()
			}, testenv.Patience, time.Millisecond, name)
		}
		require.NoError(t, entry.Close())
		require.NoError(t, ret.Close())
		require.Eventually(t, func() bool { return !tracing.Load() }, testenv.Patience, time.Millisecond)
	}
	stop.Store(true)
	require.NoError(t, <-done)
	require.Zero(t, r.MainThread().DebugHookFlags)
}

// TestCoroutinesAreForgotten makes many more than are alive at a time.
func TestCoroutinesAreForgotten(t *testing.T) {
	_, probes := load(t)
	r, function := compile(t, `return function() for i = 1, 100 do coroutine.wrap(function() end)() end end`)
	tracer, err := probes.Attach(r)
	require.NoError(t, err)
	defer tracer.Close()
	began, calls := time.Now(), 0
	for ; calls < 50 || len(tracer.threads) >= 2000; calls++ { // the goroutines of some may not have ended yet
		require.Less(t, time.Since(began), testenv.Patience, "%d coroutines are kept", len(tracer.threads))
		_, err := rt.Call1(r.MainThread(), function)
		require.NoError(t, err)
		runtime.GC()
	}
	require.EqualValues(t, 1+calls*100, probes.coroutines.Load())
}

// BenchmarkCall calls a Lua function ten times. Traced means bpftrace, which counts
// entries and returns.
func BenchmarkCall(b *testing.B) {
	for _, name := range []string{"bare", "idle", "traced"} {
		b.Run(name, func(b *testing.B) {
			p, probes := load(b)
			r, function := compile(b, adder)
			run := func() {
				_, err := rt.Call1(r.MainThread(), function, rt.IntValue(10))
				require.NoError(b, err)
			}
			if name != "bare" {
				tracer, err := probes.Attach(r)
				require.NoError(b, err)
				defer tracer.Close()
			}
			if name == "traced" {
				tr := tracetest.Bpftrace(b, `usdt:`+p.Path()+`:luaprobe:function__* { @[probe] = count(); }`, "-p", strconv.Itoa(os.Getpid()))
				defer tr.Stop()
				for deadline := time.Now().Add(testenv.Patience); r.MainThread().DebugHookFlags == 0; run() {
					require.True(b, time.Now().Before(deadline))
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10, "ns/call")
		})
	}
}
