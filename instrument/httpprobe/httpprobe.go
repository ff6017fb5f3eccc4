// Package httpprobe reports the requests of net/http servers and clients to tracers.
//
//	app := stapsdt.NewProvider("shop")
//	requests := httpprobe.NewServer(app)
//	fetches := httpprobe.NewClient(app)
//	err := app.Load()
//	...
//	http.DefaultClient.Transport = fetches.Transport(nil)
//	http.ListenAndServe(addr, requests.Handler(mux))
//
// Both report spans: see package span for their IDs, parents, durations and errors, and for
// their cost while nothing traces them. A span of a client that uses the context of a
// request has the request as its parent.
//
// # What differs while traced
//
// A program does the same whether it is traced or not. The wrappers call only methods that the
// program would have called. Handlers and transports get copies of requests, with the span's
// context. When a handler returns, the pattern, its path values and the forms are in the original
// too: a goroutine that the handler leaves behind must not set these meanwhile, as the first call
// of FormValue does. Other fields that a handler or a transport sets stay in the copy. Beyond that,
// a program can notice types. Contexts have types of this package. Unless
// [ServerProbes.PlainHandler] made a handler, its ResponseWriter has one, too, and
// http.MaxBytesReader cannot close the connection by it. docs/instrumentation.md has the complete
// list.
//
// A request that is being served or sent and is reported keeps no thread, goroutine or lock,
// and at most 1.6 KB of memory, which becomes garbage when the request has ended, or when
// the program has dropped it.
package httpprobe

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/operation"
	"github.com/go-stapsdt/stapsdt/span"
)

// ServerProbes reports the requests that handlers serve. [NewServer] makes it: the zero
// ServerProbes must not be used. Its methods, and the handlers that they return, are safe for
// concurrent use. It has these probes:
//
//	request__start(id, parent, method, path, host, remote)
//	request__end(id, parent, nanoseconds, error, route, status, bytes, method, path)
//	request__context(id, trace_high, trace_low, span)
//
// route is the pattern of a ServeMux that matched the request, or empty if none did. If middleware
// has copied the request in between, as with WithContext, [ServerProbes.Route] finds it. status is
// the status that was sent, or 0 if none was sent, because the handler panicked or took over the
// connection (Hijack). bytes is the number of bytes of the body that the handler wrote. nanoseconds
// is the time until the handler returned. error reports that it panicked, or that the request's
// context is done, for example because the client has gone.
//
// request__context has the IDs of the request's traceparent header, if it has a valid one.
// [span.WithTraceContext] replaces this.
type ServerProbes struct {
	requests *span.Operation[requestStart, requestEnd]
}

type requestStart struct{ Method, Path, Host, Remote string }

type requestEnd struct {
	Route        string
	Status       int32
	Bytes        int64
	Method, Path string
}

// NewServer defines the probes of a server. If the provider has probes of these names with other
// arguments, its Load reports it. With a nil provider nothing is reported.
func NewServer(p *stapsdt.Provider, opts ...span.Option) *ServerProbes {
	opts = append([]span.Option{span.WithTraceContext(fromHeader)}, opts...)
	return &ServerProbes{span.NewOperation[requestStart, requestEnd](p, "request", opts...)}
}

// Handler returns a handler that serves requests with next, which must not be nil, and reports
// them. While nothing traces them, it only calls next. While they are traced, next gets
//
//   - a copy of the request with the span's context. The pattern, its path values and the forms
//     that next sets are in the original when next returns or panics, and not before. Other fields
//     that next sets stay in the copy.
//   - a ResponseWriter that has the same methods as the server's. If middleware passed a
//     ResponseWriter that is not net/http's, it has the same optional methods Flush, FlushError,
//     Hijack, CloseNotify, Push, ReadFrom and WriteString, and an http.ResponseController finds all
//     others.
//
// Use PlainHandler if next asserts a type or a method of the program's own in its
// ResponseWriter, or relies on http.MaxBytesReader to close the connection, which calls an
// unexported method of the server's ResponseWriter.
func (s *ServerProbes) Handler(next http.Handler) http.Handler { return s.handler(next, false) }

// PlainHandler is like Handler, but next always gets the ResponseWriter that the server
// passed. request__end then reports 0 as status and bytes.
func (s *ServerProbes) PlainHandler(next http.Handler) http.Handler { return s.handler(next, true) }

func (s *ServerProbes) handler(next http.Handler, plain bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.requests.Enabled() {
			s.serve(next, w, r, plain)
		} else {
			next.ServeHTTP(w, r)
		}
	})
}

// Route returns a handler that calls mux and, while the request is reported by a Handler of the
// same probes, passes it the pattern that mux has matched. It is needed if middleware copies the
// request between the two, because a ServeMux sets the pattern in the request that it gets:
//
//	requests.Handler(middleware(requests.Route(mux)))
//
// The mux gets exactly what it would get untraced. The request's context must be derived from
// the Handler's, with package context alone: the methods of other contexts are not called.
func (s *ServerProbes) Route(mux http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r != nil && s.requests.Enabled() {
			if x := s.exchangeOf(r.Context()); x != nil {
				defer x.routed(r)
			}
		}
		mux.ServeHTTP(w, r)
	})
}

// errPanicked is the error of a handler that does not return. It may also have called
// runtime.Goexit.
var errPanicked = errors.New("panicked")

// exchange is a request that is served and reported.
type exchange struct {
	request
	probes       *ServerProbes
	span         span.Span[requestEnd]
	around       exchangeContext
	sent         recorder
	method, path string                 // at the start: next may change them
	route        atomic.Pointer[string] // if Route has found it
}

// serve serves and reports a request.
func (s *ServerProbes) serve(
	next http.Handler, w http.ResponseWriter, r *http.Request, plain bool,
) {
	if r == nil || r.URL == nil { // no server passes a nil one
		next.ServeHTTP(w, r)
		return
	}
	x := &exchange{probes: s, method: r.Method, path: r.URL.Path}
	outer := r.Context()
	ctx, sp := s.requests.Start(
		x.within(outer, r.Header), requestStart{x.method, x.path, r.Host, r.RemoteAddr},
	)
	if sp == nil { // the tracer has just detached
		next.ServeHTTP(w, r)
		return
	}
	shareTrailer(r)
	before := x.begin(r, ctx)
	if plain = plain || w == nil; !plain {
		x.sent.ResponseWriter = w
		w = x.sent.writer()
	}
	err := errPanicked
	defer func() { sp.End(x.end(before), err) }()
	next.ServeHTTP(w, &x.mine)
	err = failure(outer)
	if !plain {
		x.sent.implied()
	}
}

// end ends the exchange and returns the fields of its report.
func (x *exchange) end(before *http.Request) requestEnd {
	route := x.giveBack(before)
	if found := x.route.Load(); found != nil {
		route = *found
	}
	return requestEnd{route, x.sent.status.Load(), x.sent.bytes.Load(), x.method, x.path}
}

// routed keeps the pattern that a mux has matched, even if it panics. If muxes are nested, the
// inner one returns first.
func (x *exchange) routed(r *http.Request) {
	if route := r.Pattern; route != "" {
		x.route.CompareAndSwap(nil, &route)
	}
}

// headerKey is the key of a request's header in the context of the request's Start.
type headerKey struct{}

// fromHeader is the TraceContextFunc of a request: its traceparent header.
func fromHeader(ctx context.Context) (traceID [16]byte, spanID [8]byte, ok bool) {
	header, _ := ctx.Value(headerKey{}).(http.Header)
	if list := header["Traceparent"]; len(list) == 1 {
		return operation.ParseTraceparent(list[0])
	}
	return traceID, spanID, false
}
