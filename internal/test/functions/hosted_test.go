//go:build linux && (amd64 || arm64)

package functions

import (
	"os"
	"os/exec"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// inGo starts an example in Go that runs programs in another language.
func inGo(t *testing.T, name string, args ...string) *program {
	testenv.LongOnce(t, "it starts tracers")
	tracetest.NeedTracefs(t)
	t.Setenv("STAPSDT_DIR", t.TempDir())
	cmd := exec.Command(tracetest.Build(t, "../../../examples/"+name), args...)
	return &program{tracetest.Command(t, cmd), &language{name: name}, ""}
}

// TestLua: the scripts keep the functions of goroutines apart, which change threads.
func TestLua(t *testing.T) {
	p := inGo(t, "lua", "../../../examples/lua/testdata/work.lua")
	p.does("flow")
	tr := p.traced(t, "calls")
	p.does("flow")
	p.does("coroutines")
	calls := tracetest.Table(t, tr.Stop(), "calls")
	require.Equal(t, []int{1, 1, 8, 1}, []int{of(calls, "branch"), of(calls, "generate"), of(calls, "leaf"), of(calls, "failing")}, "%v", calls)
	p.does("idle")
	tr = p.traced(t, "time")
	p.does("recursion")
	out := tr.Stop()
	down := of(tracetest.Table(t, out, "exclusive"), "down")
	require.GreaterOrEqual(t, down, 99_000)
	require.InDelta(t, down, of(tracetest.Table(t, out, "inclusive"), "down"), 20)
	p.does("idle")
	tr = p.traced(t, "faults")
	p.does("memory")
	require.GreaterOrEqual(t, of(tracetest.Table(t, tr.Stop(), "faults"), "fill"), 10<<20/os.Getpagesize()*8/10)
	p.does("idle")
	tr = p.traced(t, "locks")
	p.does("lock")
	require.GreaterOrEqual(t, of(tracetest.Table(t, tr.Stop(), "waited"), "critical"), 50_000)
}

// TestWasm: the guest's functions, whose names are those of its file.
func TestWasm(t *testing.T) {
	p := inGo(t, "wasm", "-trace")
	p.WaitLine(" has its probes in ", patience)
	text, options := p.script(t, "time")
	tr := tracetest.Bpftrace(t, text, options...)
	p.Say("nap 40")
	require.Equal(t, "[80]", p.Expect("= ", patience))
	out := tr.Stop()
	inclusive, exclusive := tracetest.Table(t, out, "inclusive"), tracetest.Table(t, out, "exclusive")
	require.GreaterOrEqual(t, of(exclusive, "wait"), 80_000)
	require.LessOrEqual(t, of(exclusive, "nap"), of(inclusive, "nap")-of(inclusive, "wait")+10)
}
