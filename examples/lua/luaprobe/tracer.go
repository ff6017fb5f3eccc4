package luaprobe

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"
	"weak"

	rt "github.com/arnodel/golua/runtime"
)

// period is the time between two checks for a tracer, and so the longest delay until it is
// noticed.
const period = 50 * time.Millisecond

// Tracer installs hooks in one interpreter when a tracer attaches, and removes them when it
// has detached.
//
// Only code that runs in an interpreter may change its hooks. To run such code, Tracer uses a
// test that the interpreter makes at every call anyway: whether there are values to be
// finalized. Only Tracer refers to a value of its own, the waker. When it sees a tracer, it
// drops the waker and runs the garbage collector. At its next call the interpreter releases
// the waker, which installs the hooks. When a hook finds that no tracer is
// attached any longer, it removes all of them.
type Tracer struct {
	probes  *Probes
	runtime *rt.Runtime
	meta    *rt.Table
	waker   atomic.Pointer[rt.Value] // nil after it was dropped
	stop    chan struct{}
	closed  atomic.Bool

	// The code that runs in the interpreter owns these.
	armed   bool // there is a waker
	threads []*thread
	prune   int // the length at which to look for threads that are gone
}

// Attach makes an interpreter traceable. It must be called before the interpreter runs. If
// coroutine.create and coroutine.wrap are loaded, Attach replaces them with functions whose
// coroutines can be traced too.
func (p *Probes) Attach(r *rt.Runtime) (*Tracer, error) {
	if err := checkLayout(); err != nil {
		return nil, err
	}
	t := &Tracer{probes: p, runtime: r, meta: rt.NewTable(), stop: make(chan struct{}), prune: 64}
	t.adopt(r.MainThread())
	t.replaceCoroutines()
	t.arm()
	go t.watch()
	return t, nil
}

// Close ends the tracing. Call it when the interpreter no longer runs, on the goroutine that
// it ran on. Close reports the return of functions that an error left.
func (t *Tracer) Close() {
	t.closed.Store(true)
	close(t.stop)
	main := t.threads[0]
	main.unwind(0)
	main.set(t.runtime.MainThread(), 0)
}

// Tracing reports whether the hooks are installed, so that the calls of the main program are
// reported. Code that runs in the interpreter may call it.
func (t *Tracer) Tracing() bool { return t.threads[0].installed }

// watch drops the waker when a tracer attaches.
func (t *Tracer) watch() {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-t.stop:
			return
		case <-tick.C:
			if t.probes.hooks() != 0 && t.waker.Swap(nil) != nil {
				runtime.GC()
			}
		}
	}
}

// arm makes the next waker, if there is none.
func (t *Tracer) arm() {
	if t.armed {
		return
	}
	t.armed = true
	v := t.runtime.NewUserDataValue(&wake{t}, t.meta)
	t.waker.Store(&v)
}

// wake is the value that the interpreter releases.
type wake struct{ tracer *Tracer }

// ReleaseResources is called by the interpreter, at a call or when it is closed.
func (w *wake) ReleaseResources(*rt.UserData) {
	if !w.tracer.closed.Load() {
		w.tracer.install()
	}
}

// install installs the hooks in every coroutine. If the tracer has detached since, it
// waits for the next one.
func (t *Tracer) install() {
	t.armed = false
	flags := t.probes.hooks()
	if flags == 0 {
		t.arm()
		return
	}
	for _, th := range t.threads {
		if to := th.weak.Value(); to != nil {
			th.set(to, flags)
		}
	}
}

// remove removes the hooks from every coroutine, and what was kept for them, and waits for the
// next tracer. A coroutine that never runs again would not do so.
func (t *Tracer) remove() {
	for _, th := range t.threads {
		th.frames = nil
		if to := th.weak.Value(); to != nil {
			th.set(to, 0)
		}
	}
	t.arm()
}

// adopt makes a coroutine traceable.
func (t *Tracer) adopt(to *rt.Thread) {
	if len(t.threads) >= t.prune {
		t.threads = slices.DeleteFunc(t.threads, func(th *thread) bool { return th.weak.Value() == nil })
		t.prune = 2*len(t.threads) + 64
	}
	th := &thread{tracer: t, weak: weak.Make(to), id: t.probes.coroutines.Add(1)}
	th.hook = th.hookFunction()
	t.threads = append(t.threads, th)
	th.set(to, t.probes.hooks())
}
