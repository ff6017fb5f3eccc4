// Package luaprobe lets tracers see the functions of Lua programs that golua runs, as other
// interpreters with USDT probes do.
//
//	lua := stapsdt.NewProvider("lua")
//	probes := luaprobe.New(lua)
//	err := lua.Load()
//	...
//	tracer, err := probes.Attach(runtime)
//	defer tracer.Close()
//
// It defines three probes, with CPython's arguments and one more:
//
//	function__entry(file, function, line, coroutine)
//	function__return(file, function, line, coroutine)
//	line(file, function, line, coroutine)
//
// The line of an entry is the first line on which the function has code. The line of a return
// is 0 if the function has no return statement. A function that ends in a tail call returns
// at the call, and a function that an error leaves returns when the error is caught. Functions
// that had begun when the tracer attached are not reported, nor are functions written in Go.
//
// The coroutine is a number. A script must use it as the key of its maps, because each Lua
// coroutine, and the program itself, is a goroutine, which moves from thread to thread.
//
// While no tracer is attached, nothing is installed in the interpreter. While one is, each
// function that was reported and has not returned takes 8 bytes. A coroutine in which the
// program has installed a hook of its own, with debug.sethook, keeps it and is not reported, and
// debug.gethook shows the hook of this package elsewhere.
package luaprobe

import (
	"sync/atomic"

	"github.com/go-stapsdt/stapsdt"

	rt "github.com/arnodel/golua/runtime"
)

type place = stapsdt.Probe4[string, string, int32, uint64]

// Probes holds the probes. Any number of interpreters may share them.
type Probes struct {
	entry, ret, line *place
	coroutines       atomic.Uint64
}

// New defines the probes. If a definition is invalid, the provider's Load reports it.
func New(p *stapsdt.Provider) *Probes {
	define := func(name string) *place {
		return stapsdt.NewProbe4[string, string, int32, uint64](p, name, "file", "function", "line", "coroutine")
	}
	return &Probes{entry: define("function__entry"), ret: define("function__return"), line: define("line")}
}

// hooks returns the hooks that the interpreter needs for the probes that are traced now.
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
