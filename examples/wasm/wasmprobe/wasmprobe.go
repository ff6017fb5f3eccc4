// Package wasmprobe lets tracers see the functions of WebAssembly modules that wazero
// runs.
//
//	provider := stapsdt.NewProvider("wasm")
//	probes := wasmprobe.New(provider)
//	err := provider.Load()
//	...
//	ctx = probes.ListenIfTraced(ctx) // or Listen
//	module, err := runtime.Instantiate(ctx, code)
//	...
//	module.ExportedFunction("work").Call(probes.Call(ctx))
//
// Two probes are defined:
//
//	function__entry(module, function, index, call)
//	function__return(module, function, index, call)
//
// The module's name is the one that it was instantiated with, the function's the guest's
// own, from its name section; the index stands where other languages have the line. The call is the number that Call gave to the context, 0
// where it was not used: a goroutine moves from thread to thread, so that what a script
// keeps is to be kept by it. A function that traps returns too.
package wasmprobe

import (
	"context"
	"sync/atomic"

	"github.com/go-stapsdt/stapsdt"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

type function = stapsdt.Probe4[string, string, uint32, uint64]

// Probes are the probes of a provider's modules.
type Probes struct {
	entry, ret *function
	calls      atomic.Uint64
}

// New defines the probes. A definition that fails is reported by the provider's Load.
func New(p *stapsdt.Provider) *Probes {
	return &Probes{
		entry: stapsdt.NewProbe4[string, string, uint32, uint64](p, "function__entry"),
		ret:   stapsdt.NewProbe4[string, string, uint32, uint64](p, "function__return"),
	}
}

// ListenIfTraced is Listen when somebody traces now, and returns ctx as it is when
// not: then wazero compiles what it would without this package, which costs nothing, and
// a tracer that comes later sees nothing.
func (p *Probes) ListenIfTraced(ctx context.Context) context.Context {
	if !p.entry.Enabled() && !p.ret.Enabled() {
		return ctx
	}
	return p.Listen(ctx)
}

// Listen returns a context for wazero's CompileModule or Instantiate, with which
// every function of the module calls us, whether somebody traces or not.
func (p *Probes) Listen(ctx context.Context) context.Context {
	return experimental.WithFunctionListenerFactory(ctx, factory{p})
}

type callKey struct{}

// Call numbers the calls that are made with the context that it returns.
func (p *Probes) Call(ctx context.Context) context.Context {
	return context.WithValue(ctx, callKey{}, p.calls.Add(1))
}

type factory struct{ probes *Probes }

// NewFunctionListener returns the listener of one function, whose names are found here
// and not at every call.
func (f factory) NewFunctionListener(def api.FunctionDefinition) experimental.FunctionListener {
	name := def.Name()
	if name == "" {
		name = def.DebugName()
	}
	return &listener{f.probes, name, def.Index()}
}

type listener struct {
	*Probes
	name  string
	index uint32
}

func (l *listener) Before(ctx context.Context, mod api.Module, _ api.FunctionDefinition, _ []uint64, _ experimental.StackIterator) {
	l.fire(ctx, mod, l.entry)
}

func (l *listener) After(ctx context.Context, mod api.Module, _ api.FunctionDefinition, _ []uint64) {
	l.fire(ctx, mod, l.ret)
}

func (l *listener) Abort(ctx context.Context, mod api.Module, _ api.FunctionDefinition, _ error) {
	l.fire(ctx, mod, l.ret)
}

func (l *listener) fire(ctx context.Context, mod api.Module, probe *function) {
	if probe.Enabled() {
		call, _ := ctx.Value(callKey{}).(uint64)
		probe.Fire(mod.Name(), l.name, l.index, call)
	}
}
