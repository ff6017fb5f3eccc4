package main

import (
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/examples/lua/luaprobe"

	"github.com/arnodel/golua/lib"
	rt "github.com/arnodel/golua/runtime"
)

// host provides the functions that a Lua program has in addition to Lua's own library.
type host struct {
	probes *luaprobe.Probes
	tracer *luaprobe.Tracer
}

// interpret runs a Lua program in an interpreter of its own.
func interpret(probes *luaprobe.Probes, name string, source []byte) error {
	r := rt.New(os.Stdout)
	defer r.Close(nil)
	defer lib.LoadAll(r)()
	tracer, err := probes.Attach(r)
	if err != nil {
		return err
	}
	defer tracer.Close()
	h := &host{probes, tracer}
	r.SetEnvGoFunc(r.GlobalEnv(), "tracing", h.tracing, 0, false)
	r.SetEnvGoFunc(r.GlobalEnv(), "spawn", h.spawn, 1, false)
	r.SetEnvGoFunc(r.GlobalEnv(), "sleep", sleep, 1, false)
	r.SetEnvGoFunc(r.GlobalEnv(), "acquire", acquire, 0, false)
	r.SetEnvGoFunc(r.GlobalEnv(), "release", release, 0, false)

	program, err := r.CompileAndLoadLuaChunk(name, source, rt.TableValue(r.GlobalEnv()))
	if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	return rt.Call(r.MainThread(), rt.FunctionValue(program), nil, rt.NewTerminationWith(nil, 0, false))
}

// tracing() returns true if the functions that are called from now on are traced.
func (h *host) tracing(t *rt.Thread, c *rt.GoCont) (rt.Cont, error) {
	return c.PushingNext1(t.Runtime, rt.BoolValue(h.tracer.Tracing())), nil
}

// spawn(source) runs another program at the same time.
func (h *host) spawn(_ *rt.Thread, c *rt.GoCont) (rt.Cont, error) {
	source, err := c.StringArg(0)
	if err != nil {
		return nil, err
	}
	go func() {
		if err := interpret(h.probes, "spawned", []byte(source)); err != nil {
			log.Print(err)
		}
	}()
	return c.Next(), nil
}

// sleep(milliseconds)
func sleep(_ *rt.Thread, c *rt.GoCont) (rt.Cont, error) {
	ms, err := c.IntArg(0)
	if err != nil {
		return nil, err
	}
	time.Sleep(time.Duration(ms) * time.Millisecond)
	return c.Next(), nil
}

// shared holds the state that programs share if they run at the same time.
var shared sync.Mutex

// acquire() waits until no other program has the lock.
func acquire(_ *rt.Thread, c *rt.GoCont) (rt.Cont, error) {
	shared.Lock()
	return c.Next(), nil
}

// release() releases the lock.
func release(_ *rt.Thread, c *rt.GoCont) (rt.Cont, error) {
	shared.Unlock()
	return c.Next(), nil
}
