// Package luaprobe lets tracers see what golua runs: the functions of Lua programs,
// as interpreters with USDT show theirs.
//
//	lua := stapsdt.NewProvider("lua")
//	probes := luaprobe.New(lua)
//	err := lua.Load()
//	...
//	tracer, err := probes.Attach(runtime)
//	defer tracer.Close()
//
// Three probes are defined, with CPython's arguments and one more:
//
//	function__entry(file, function, line, coroutine)
//	function__return(file, function, line, coroutine)
//	line(file, function, line, coroutine)
//
// The line of an entry is the first that the function has code on, and that of a
// return 0 where the function has no return statement. A function that
// ends in a tail call returns at it, and one that is left by an error returns when
// the error is caught. One that had begun when the tracer came is not reported.
// Functions that are written in Go are not either.
//
// The coroutine is a number, and what a script keeps is to be kept by it: a Lua
// coroutine, and the program itself, is a goroutine, which moves from thread to
// thread. The kernel's own events know only threads: so while there are reported
// functions that have not returned yet, their goroutine is locked to its thread, and
// from an entry to its return tid is as good as the coroutine.
//
// Nothing is installed in the interpreter while nobody traces.
package luaprobe

import (
	"sync/atomic"

	"github.com/go-stapsdt/stapsdt"

	rt "github.com/arnodel/golua/runtime"
)

type place = stapsdt.Probe4[string, string, int32, uint64]

// Probes are the probes of a provider's interpreters, of which there may be many.
type Probes struct {
	entry, ret, line *place
	coroutines       atomic.Uint64
}

// New defines the probes. A definition that fails is reported by the provider's Load.
func New(p *stapsdt.Provider) *Probes {
	return &Probes{
		entry: stapsdt.NewProbe4[string, string, int32, uint64](p, "function__entry"),
		ret:   stapsdt.NewProbe4[string, string, int32, uint64](p, "function__return"),
		line:  stapsdt.NewProbe4[string, string, int32, uint64](p, "line"),
	}
}

// hooks returns the interpreter's hooks that are needed for what is traced now.
func (p *Probes) hooks() rt.DebugHookFlags {
	var flags rt.DebugHookFlags
	if p.entry.Enabled() || p.ret.Enabled() {
		flags |= rt.HookFlagCall | rt.HookFlagReturn
	}
	if p.line.Enabled() {
		flags |= rt.HookFlagLine
	}
	return flags
}
