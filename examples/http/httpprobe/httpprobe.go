// Package httpprobe is net/http middleware that reports requests to tracers.
//
//	app := stapsdt.NewProvider("shop")
//	requests := httpprobe.New(app)
//	err := app.Load()
//	...
//	http.ListenAndServe(addr, requests.Handler(mux))
//
// Three probes are defined:
//
//	request__start(id, method, path)
//	request__thread(id, method, path)
//	request__done(id, method, path, status, nanoseconds, bytes)
//
// A goroutine moves from thread to thread, so what belongs to a request is kept by
// its id and not by tid. The kernel's own events know only the thread: for those,
// a request whose request__thread is traced stays on its thread until it is done,
// and nothing else runs there.
//
// A request is reported from start to done or not at all: one that was running when
// the tracer came is not.
package httpprobe

import (
	"context"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt"
)

// Probes are the probes of a provider's requests.
type Probes struct {
	start  *stapsdt.Probe3[uint64, string, string]
	thread *stapsdt.Probe3[uint64, string, string]
	done   *stapsdt.Probe6[uint64, string, string, int32, int64, int64]
	ids    atomic.Uint64
}

// New defines the probes. A definition that fails is reported by the provider's Load.
func New(p *stapsdt.Provider) *Probes {
	return &Probes{
		start:  stapsdt.NewProbe3[uint64, string, string](p, "request__start"),
		thread: stapsdt.NewProbe3[uint64, string, string](p, "request__thread"),
		done:   stapsdt.NewProbe6[uint64, string, string, int32, int64, int64](p, "request__done"),
	}
}

// Handler returns a handler that serves with next and reports the requests. While
// nobody traces it calls next, and does nothing else.
func (p *Probes) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.traced() {
			p.serve(next, w, r)
		} else {
			next.ServeHTTP(w, r)
		}
	})
}

func (p *Probes) traced() bool {
	return p.start.Enabled() || p.done.Enabled() || p.thread.Enabled()
}

// serve reports a request. That it is done is reported of a handler that panics too,
// with the status that was sent until then: 0 when none was.
func (p *Probes) serve(next http.Handler, w http.ResponseWriter, r *http.Request) {
	id := p.ids.Add(1)
	// next may change the request.
	method, path := r.Method, r.URL.Path
	if p.thread.Enabled() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		p.thread.Fire(id, method, path)
	}
	p.start.Fire(id, method, path)
	sent := &recorder{ResponseWriter: w}
	began := time.Now()
	defer func() {
		p.done.Fire(id, method, path, int32(sent.status), int64(time.Since(began)), sent.bytes)
	}()
	next.ServeHTTP(sent.writer(), r.WithContext(context.WithValue(r.Context(), idKey{}, id)))
	if sent.status == 0 {
		sent.status = http.StatusOK
	}
}

type idKey struct{}

// RequestID returns the id of the request that a context belongs to, which is the
// first argument of its probes; 0 when the request is not reported.
func RequestID(ctx context.Context) uint64 {
	id, _ := ctx.Value(idKey{}).(uint64)
	return id
}
