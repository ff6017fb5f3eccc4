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
// languages. call is the number that Call gave to the context, or 0 if Call was not used. A
// script must use it as the key of its maps, because a goroutine moves from thread to thread.
// The kernel's own events know only threads. For their sake, the goroutine of a call is locked
// to its thread while reported functions have not returned, and tid can be the key from an
// entry to its return. function__return also fires for a function that traps.
package wasmprobe

import (
	"context"
	"runtime"
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
	return &Probes{
		entry: stapsdt.NewProbe4[string, string, uint32, uint64](p, "function__entry"),
		ret:   stapsdt.NewProbe4[string, string, uint32, uint64](p, "function__return"),
	}
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

type callKey struct{}

// Call numbers the calls that are made with the context that it returns. Goroutines must not
// use this context at the same time.
func (p *Probes) Call(ctx context.Context) context.Context {
	return context.WithValue(ctx, callKey{}, &call{id: p.calls.Add(1)})
}

// call is the state of a call. Only its goroutine uses it.
type call struct {
	id uint64
	// depth is the number of functions that were reported and have not returned. While it is
	// not 0, the goroutine is locked to its thread.
	depth int
}

func (c *call) enter() {
	if c.depth++; c.depth == 1 {
		runtime.LockOSThread()
	}
}

// leave is called for functions that were not reported too. Because a function that was
// reported returns after all that it called, depth is 0 at the latest when the outermost one
// has returned.
func (c *call) leave() {
	if c.depth == 0 {
		return
	}
	if c.depth--; c.depth == 0 {
		runtime.UnlockOSThread()
	}
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
	if !l.entry.Enabled() && !l.ret.Enabled() {
		return
	}
	var id uint64
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.enter()
		id = c.id
	}
	l.entry.Fire(mod.Name(), l.name, l.index, id)
}

func (l *listener) After(ctx context.Context, mod api.Module, _ api.FunctionDefinition, _ []uint64) {
	l.leave(ctx, mod)
}

func (l *listener) Abort(ctx context.Context, mod api.Module, _ api.FunctionDefinition, _ error) {
	l.leave(ctx, mod)
}

func (l *listener) leave(ctx context.Context, mod api.Module) {
	var id uint64
	c, ok := ctx.Value(callKey{}).(*call)
	if ok {
		id = c.id
		defer c.leave()
	}
	l.ret.Fire(mod.Name(), l.name, l.index, id)
}
