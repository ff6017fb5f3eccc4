// Package wasmprobe lets tracers see the functions of the WebAssembly modules that wazero
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
// It defines two probes:
//
//	function__entry(module, function, index, call)
//	function__return(module, function, index, call)
//
// module is the name with which the module was instantiated. function is the guest's own name
// for the function, from its name section. index takes the place of the line in other
// languages. call is the number of the context that Call returned, or 0 if the guest was called
// with another one, even if it is derived from that: a listener calls no method of contexts. A
// script must use it as the key of its maps, because a goroutine moves from thread to thread.
// function__return also fires for a function that traps.
//
// Nothing is kept for a function that has not returned.
package wasmprobe

import (
	"context"
	"sync/atomic"

	"github.com/go-stapsdt/stapsdt"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

type function = stapsdt.Probe4[string, string, uint32, uint64]

// Probes holds the probes for modules.
type Probes struct {
	entry, ret *function
	calls      atomic.Uint64
}

// New defines the probes. If a definition is invalid, the provider's Load reports it.
func New(p *stapsdt.Provider) *Probes {
	define := func(name string) *function {
		return stapsdt.NewProbe4[string, string, uint32, uint64](p, name, "module", "function", "index", "call")
	}
	return &Probes{entry: define("function__entry"), ret: define("function__return")}
}

// ListenIfTraced is Listen if a tracer is attached now. Otherwise it returns ctx: wazero then
// compiles the same code as without this package, which costs nothing, and a tracer that
// attaches later sees nothing.
func (p *Probes) ListenIfTraced(ctx context.Context) context.Context {
	if !p.entry.Enabled() && !p.ret.Enabled() {
		return ctx
	}
	return p.Listen(ctx)
}

// Listen returns a context for wazero's CompileModule or Instantiate, with which every
// function of the module calls the listener, whether or not a tracer is attached.
func (p *Probes) Listen(ctx context.Context) context.Context {
	return experimental.WithFunctionListenerFactory(ctx, factory{p})
}

// Call numbers the calls that are made with the context that it returns. Goroutines must not
// use this context at the same time.
func (p *Probes) Call(ctx context.Context) context.Context {
	return &call{ctx, p.calls.Add(1)}
}

// call is the context of a call.
type call struct {
	context.Context
	id uint64
}

// idOf returns the number of a call.
func idOf(ctx context.Context) uint64 {
	if c, ok := ctx.(*call); ok {
		return c.id
	}
	return 0
}

type factory struct{ probes *Probes }

// NewFunctionListener returns the listener of one function. It finds the names here, not at
// every call.
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
	if l.entry.Enabled() {
		l.entry.Fire(mod.Name(), l.name, l.index, idOf(ctx))
	}
}

func (l *listener) After(ctx context.Context, mod api.Module, _ api.FunctionDefinition, _ []uint64) {
	if l.ret.Enabled() {
		l.ret.Fire(mod.Name(), l.name, l.index, idOf(ctx))
	}
}

func (l *listener) Abort(ctx context.Context, mod api.Module, def api.FunctionDefinition, _ error) {
	l.After(ctx, mod, def, nil)
}
