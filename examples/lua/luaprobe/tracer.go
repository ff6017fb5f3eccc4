package luaprobe

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"
	"weak"

	rt "github.com/arnodel/golua/runtime"
)

// period is how often a tracer is looked for, and so how late it may be noticed.
const period = 50 * time.Millisecond

// Tracer puts hooks into one interpreter while somebody traces, and takes them out.
//
// An interpreter's hooks may be touched only by what runs in it. To come there from
// outside takes no test in the interpreter, as it has one already: at every call it
// looks whether there are values to be finalized. A value of ours, the waker, is kept
// alive by us alone. When a tracer is seen it is let go and the garbage collector is
// run; at its next call the interpreter releases the waker, and the hooks are put in.
// They are taken out by themselves.
type Tracer struct {
	probes  *Probes
	runtime *rt.Runtime
	meta    *rt.Table
	waker   atomic.Pointer[rt.Value] // nil when it was let go
	stop    chan struct{}
	closed  atomic.Bool

	// What runs in the interpreter owns these.
	armed   bool // there is a waker
	threads []*thread
	prune   int // the length at which threads that are gone are looked for
}

// Attach lets an interpreter be traced. It must be called before the interpreter runs,
// and replaces coroutine.create and coroutine.wrap, where they are loaded, by ones
// whose coroutines can be traced too.
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

// Close ends the tracing. It is called when the interpreter does not run any more, by
// the goroutine that it ran on. Functions that an error left return.
func (t *Tracer) Close() {
	t.closed.Store(true)
	close(t.stop)
	main := t.threads[0]
	main.unwind(0)
	main.set(t.runtime.MainThread(), 0)
}

// Tracing reports whether hooks are in, and what the main program calls is reported.
// It may be called by what runs in the interpreter.
func (t *Tracer) Tracing() bool { return t.threads[0].installed }

// watch sends the waker when somebody traces.
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

// wake is what the interpreter releases.
type wake struct{ tracer *Tracer }

// ReleaseResources is called by the interpreter, at a call; or when it is closed.
func (w *wake) ReleaseResources(*rt.UserData) {
	if !w.tracer.closed.Load() {
		w.tracer.install()
	}
}

// install puts the hooks into every coroutine. When the tracer has left meanwhile, the
// next is waited for.
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
