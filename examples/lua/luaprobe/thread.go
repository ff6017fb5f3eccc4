package luaprobe

import (
	"weak"

	rt "github.com/arnodel/golua/runtime"
)

// thread is the state of a coroutine, or of the main program. The goroutine that runs it uses
// it, and so does the goroutine of another coroutine while the first one does not run.
type thread struct {
	tracer    *Tracer
	weak      weak.Pointer[rt.Thread]
	id        uint64
	hook      rt.Value
	installed bool
	// frames holds the functions that were reported and have not returned.
	frames []*rt.LuaCont
}

// set installs hooks, or removes them if flags is 0. A hook that the program has installed, with
// debug.sethook, stays. set also works in a hook, where SetupHooks does nothing.
func (th *thread) set(to *rt.Thread, flags rt.DebugHookFlags) {
	const all = rt.HookFlagCall | rt.HookFlagReturn | rt.HookFlagLine
	if to.DebugHookFlags&all != 0 && to.Hook != th.hook {
		th.installed = false
		return
	}
	to.Hook = th.hook
	to.DebugHookFlags = to.DebugHookFlags&^all | flags
	th.installed = flags != 0
}

func (th *thread) hookFunction() rt.Value {
	hook := rt.NewGoFunction(th.event, "luaprobe", 2, false)
	hook.SolemnlyDeclareCompliance(rt.ComplyCpuSafe | rt.ComplyMemSafe | rt.ComplyTimeSafe | rt.ComplyIoSafe)
	return rt.FunctionValue(hook)
}

// event is the hook. When no tracer is attached any longer, it removes all hooks.
func (th *thread) event(t *rt.Thread, c *rt.GoCont) (rt.Cont, error) {
	if flags := th.tracer.probes.hooks(); flags == 0 {
		th.tracer.remove()
	} else {
		th.set(t, flags)
		th.report(c)
	}
	return c.Next(), nil
}

var (
	call     = rt.StringValue("call")
	tailCall = rt.StringValue("tail call")
	ret      = rt.StringValue("return")
	line     = rt.StringValue("line")
)

// report reports an event of a Lua function. The return of a Go function may be that of
// pcall, which caught an error.
func (th *thread) report(c *rt.GoCont) {
	of := parent(c.Next())
	cont, isLua := of.(*rt.LuaCont)
	switch c.Arg(0) {
	case call:
		if isLua {
			th.unwindTo(parent(of))
			th.enter(cont)
		}
	case tailCall:
		// The called function returns to where its caller, which has ended, would have.
		th.unwindTo(parent(of))
		if isLua {
			th.enter(cont)
		}
	case ret:
		th.unwindTo(of)
		if top := len(th.frames) - 1; isLua && top >= 0 && th.frames[top] == cont {
			th.unwind(top)
		}
	case line:
		info := cont.DebugInfo()
		th.tracer.probes.line.Fire(info.Source, info.Name, int32(c.Arg(1).AsInt()), th.id)
	}
}

// unwindTo reports the return of all functions that do not lead to a continuation: they ended
// in a tail call, or an error left them.
func (th *thread) unwindTo(c rt.Cont) {
	for ; c != nil && len(th.frames) > 0; c = parent(c) {
		for i := len(th.frames) - 1; i >= 0; i-- {
			if th.frames[i] == c {
				th.unwind(i + 1)
				return
			}
		}
	}
	th.unwind(0)
}

func (th *thread) enter(cont *rt.LuaCont) {
	th.frames = append(th.frames, cont)
	info := cont.DebugInfo()
	th.tracer.probes.entry.Fire(info.Source, info.Name, firstLine(cont), th.id)
}

// unwind reports the return of all functions from depth on.
func (th *thread) unwind(depth int) {
	for i := len(th.frames) - 1; i >= depth; i-- {
		info := th.frames[i].DebugInfo()
		th.tracer.probes.ret.Fire(info.Source, info.Name, info.CurrentLine, th.id)
		th.frames[i] = nil
		th.frames = th.frames[:i]
	}
}
