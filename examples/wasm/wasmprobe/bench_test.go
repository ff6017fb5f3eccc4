//go:build linux

package wasmprobe

import (
	"context"
	"os"
	"strconv"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// instantiate makes a module of the example's guest.
func instantiate(t testing.TB, ctx context.Context) api.Module {
	return instantiateWith(t, ctx, func() {})
}

// instantiateWith makes a module whose function nap calls sleep.
func instantiateWith(t testing.TB, ctx context.Context, sleep func()) api.Module {
	t.Helper()
	guest, err := os.ReadFile("../guest/guest.wasm")
	require.NoError(t, err)
	r := wazero.NewRuntime(ctx)
	t.Cleanup(func() { require.NoError(t, r.Close(ctx)) })
	_, err = r.NewHostModuleBuilder("host").
		NewFunctionBuilder().WithFunc(func(int32) { sleep() }).Export("sleep").
		NewFunctionBuilder().WithFunc(func(int32) {}).Export("hold").
		NewFunctionBuilder().WithFunc(func() {}).Export("acquire").
		Instantiate(ctx)
	require.NoError(t, err)
	module, err := r.Instantiate(ctx, guest)
	require.NoError(t, err)
	return module
}

func load(t testing.TB) (*stapsdt.Provider, *Probes) {
	t.Helper()
	p := stapsdt.NewProvider("wasmprobe", stapsdt.WithDir(t.TempDir()))
	probes := New(p)
	require.NoError(t, p.Load())
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p, probes
}

func TestNothingIsInstalledWhileNobodyTraces(t *testing.T) {
	_, probes := load(t)
	ctx := t.Context()
	require.Equal(t, ctx, probes.ListenIfTraced(ctx))
	require.NotEqual(t, ctx, probes.Listen(ctx))
}

// BenchmarkCall makes 177 calls of fib and 88 of add: fib(10).
func BenchmarkCall(b *testing.B) {
	const calls = 177 + 88
	for _, name := range []string{"bare", "not listening", "listening", "traced"} {
		b.Run(name, func(b *testing.B) {
			p, probes := load(b)
			ctx := context.Background()
			switch name {
			case "not listening":
				ctx = probes.ListenIfTraced(ctx)
			case "listening", "traced":
				ctx = probes.Listen(ctx)
			}
			if name == "traced" {
				tr := tracetest.Bpftrace(b, `usdt:`+p.Path()+`:wasmprobe:function__* { @[probe] = count(); }`, "-p", strconv.Itoa(os.Getpid()))
				defer tr.Stop()
			}
			fib := instantiate(b, ctx).ExportedFunction("fib")
			ctx = probes.Call(ctx)
			b.ReportAllocs()
			for b.Loop() {
				results, err := fib.Call(ctx, 10)
				require.NoError(b, err)
				require.EqualValues(b, 55, results[0])
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/calls, "ns/call")
		})
	}
}
