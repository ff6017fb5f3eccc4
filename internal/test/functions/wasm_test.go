//go:build linux && (amd64 || arm64)

package functions

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// guest is the example that runs a WebAssembly module.
type guest struct {
	*program
	t *testing.T
}

// call calls a function of the module.
func (g guest) call(function string, argument, result int) {
	g.t.Helper()
	g.Say(fmt.Sprint(function, " ", argument))
	require.Equal(g.t, fmt.Sprintf("[%d]", result), g.Expect("= ", testenv.Patience))
}

// shows runs a script while a function is called, and returns what it prints.
func (g guest) shows(script, function string, argument, result int) string {
	g.t.Helper()
	text, options := g.script(g.t, script)
	tr := tracetest.Bpftrace(g.t, text, options...)
	g.call(function, argument, result)
	return tr.Stop()
}

var wasmTests = map[string]func(t *testing.T, g guest){
	"calls": func(t *testing.T, g guest) { // of fib 41, of which 20 add
		calls := tracetest.Table(t, g.shows("calls", "fib", 7, 13), "calls")
		require.Equal(t, map[string]int{"guest, fib": 41, "guest, add": 20}, calls)
	},
	"time": func(t *testing.T, g guest) {
		out := g.shows("time", "nap", 40, 80)
		inclusive, exclusive := tracetest.Table(t, out, "inclusive"), tracetest.Table(t, out, "exclusive")
		require.GreaterOrEqual(t, of(exclusive, "wait"), 80_000)
		require.GreaterOrEqual(t, of(inclusive, "nap"), of(inclusive, "wait"))
		// Not even what nap has waited for the processor counts twice.
		require.LessOrEqual(t, of(exclusive, "nap"), of(inclusive, "nap")-of(inclusive, "wait")+10)
	},
	"hot": func(t *testing.T, g guest) {
		samples := tracetest.Table(t, g.shows("hot", "work", 200_000_000, 1), "samples")
		require.Greater(t, samples["spin, work, "], 10, "%v", samples)
		require.Less(t, samples["work, , "], samples["spin, work, "]/4, "%v", samples)
	},
	"malloc": func(t *testing.T, g guest) { // the linear memory is on Go's heap, and is copied to a larger place
		bytes := tracetest.Table(t, g.shows("malloc", "buffer", 10<<20, 10<<20), "bytes")
		require.GreaterOrEqual(t, of(bytes, "allocate"), 10<<20, "%v", bytes)
		testenv.Figure(t, "bytes of 10 MiB", float64(of(bytes, "allocate")), 11<<20, "B")
		require.Less(t, of(bytes, "fill"), 1<<20)
	},
	"faults": func(t *testing.T, g guest) { // Go clears the memory before the guest has it
		faults := tracetest.Table(t, g.shows("faults", "buffer", 10<<20, 10<<20), "faults")
		pages := 10 << 20 / os.Getpagesize()
		require.GreaterOrEqual(t, of(faults, "allocate"), pages*8/10, "%v", faults)
		require.Less(t, of(faults, "fill"), pages/10)
	},
	"locks": func(t *testing.T, g guest) { // which the host holds for half a second
		out := g.shows("locks", "lock", 500, 1)
		require.Positive(t, of(tracetest.Table(t, out, "waits"), "critical"), out)
		require.GreaterOrEqual(t, of(tracetest.Table(t, out, "waited"), "critical"), 300_000)
	},
	"stapsdt": func(t *testing.T, g guest) {
		c := g.commands(t, func() { g.call("work", 1, 1) })
		g.call("fib", 2, 1)
		g.call("nap", 40, 80)
		entries, called, took := c.results(t)
		require.Equal(t, []string{"fib", "fib", "fib", "add", "nap", "wait", "wait", "add"}, only(entries, "fib", "add", "nap", "wait"))
		require.Equal(t, []int{3, 2, 1, 2}, []int{called["fib"].Count, called["add"].Count, called["nap"].Count, called["wait"].Count})
		require.Equal(t, 2, took["wait"].Count)
		require.GreaterOrEqual(t, took["wait"].Average, float64(40*time.Millisecond))
	},
}

// TestWasm runs each script on the guest's functions, whose names are those of its file.
func TestWasm(t *testing.T) {
	testenv.Long(t, "it starts tracers")
	tracetest.NeedTracefs(t)
	require.NoError(t, unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0)) // as in TestFaults
	t.Setenv("STAPSDT_DIR", t.TempDir())
	for name, test := range wasmTests {
		t.Run(name, func(t *testing.T) {
			p := tracetest.Command(t, exec.Command(tracetest.Build(t, "../../../examples/wasm"), "-trace"))
			p.WaitLine(" has its probes in ", testenv.Patience)
			g := guest{&program{p, &language{name: "wasm"}, ""}, t}
			g.call("fib", 3, 2) // before anybody looks
			test(t, g)
			g.call("fib", 4, 3)
			g.Hangup()
			require.NoError(t, g.Wait(testenv.Patience))
		})
	}
}
