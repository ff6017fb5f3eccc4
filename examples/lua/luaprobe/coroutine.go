package luaprobe

import (
	rt "github.com/arnodel/golua/runtime"
)

// replaceCoroutines replaces the functions that create coroutines, so that their coroutines
// are adopted.
func (t *Tracer) replaceCoroutines() {
	lib, ok := t.runtime.GlobalEnv().Get(rt.StringValue("coroutine")).TryTable()
	if !ok {
		return
	}
	rt.SolemnlyDeclareCompliance(rt.ComplyCpuSafe|rt.ComplyMemSafe|rt.ComplyTimeSafe|rt.ComplyIoSafe,
		t.runtime.SetEnvGoFunc(lib, "create", t.create, 1, false),
		t.runtime.SetEnvGoFunc(lib, "wrap", t.wrap, 1, false))
}

// start starts a coroutine of the function in argument 0, and adopts it.
func (t *Tracer) start(c *rt.GoCont) (*rt.Thread, error) {
	if err := c.Check1Arg(); err != nil {
		return nil, err
	}
	f, err := c.CallableArg(0)
	if err != nil {
		return nil, err
	}
	co := rt.NewThread(t.runtime)
	t.adopt(co)
	co.Start(f)
	return co, nil
}

func (t *Tracer) create(th *rt.Thread, c *rt.GoCont) (rt.Cont, error) {
	co, err := t.start(c)
	if err != nil {
		return nil, err
	}
	return c.PushingNext1(th.Runtime, rt.ThreadValue(co)), nil
}

func (t *Tracer) wrap(th *rt.Thread, c *rt.GoCont) (rt.Cont, error) {
	co, err := t.start(c)
	if err != nil {
		return nil, err
	}
	resume := rt.NewGoFunction(func(th *rt.Thread, c *rt.GoCont) (rt.Cont, error) {
		results, err := co.Resume(th, c.Etc())
		if err != nil {
			return nil, err
		}
		return c.PushingNext(th.Runtime, results...), nil
	}, "wrap", 0, true)
	resume.SolemnlyDeclareCompliance(rt.ComplyCpuSafe | rt.ComplyMemSafe | rt.ComplyTimeSafe | rt.ComplyIoSafe)
	return c.PushingNext1(th.Runtime, rt.FunctionValue(resume)), nil
}
