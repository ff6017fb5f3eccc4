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
// Both report spans: see package span for their ids, parents, durations and errors, and for
// what they cost while nothing traces. A span of a client that uses the context of a request
// has the request as its parent.
package httpprobe

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/traceparent"
	"github.com/go-stapsdt/stapsdt/span"
)

// Server reports the requests that handlers serve:
//
//	request__start(id, parent, method, path, host, remote)
//	request__end(id, parent, nanoseconds, error, route, status, bytes, method, path)
//	request__context(id, trace_high, trace_low, span)
//
// route is the pattern of a ServeMux that matched the request, or empty if none did.
// status is the one that was sent, or 0 if none was: because the handler panicked, or because
// it took over the connection (Hijack). bytes is the number of bytes of the body that the
// handler wrote. The time ends when the handler returns. error says that it panicked, or that
// the request's context is done, as it is when the client has gone.
//
// request__context has the ids of the request's traceparent header, if it has a valid one.
// [span.WithTraceContext] replaces this.
type Server struct {
	requests *span.Operation[requestStart, requestEnd]
}

type requestStart struct{ Method, Path, Host, Remote string }

type requestEnd struct {
	Route        string
	Status       int32
	Bytes        int64
	Method, Path string
}

// NewServer defines the probes of a server. If the provider already has others of these
// names, its Load reports it. With a nil provider nothing is reported.
func NewServer(p *stapsdt.Provider, opts ...span.Option) *Server {
	opts = append([]span.Option{span.WithTraceContext(fromHeader)}, opts...)
	return &Server{span.New[requestStart, requestEnd](p, "request", opts...)}
}

// Handler returns a handler that serves requests with next and reports them. While nothing
// traces them, it only calls next. While they are traced, next gets a copy of the request
// with the span's context, and a ResponseWriter that has the same optional methods as the
// server's: Flush, FlushError, Hijack, CloseNotify, Push, ReadFrom and WriteString. An
// http.ResponseController finds all others.
func (s *Server) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.requests.Enabled() {
			s.serve(next, w, r)
		} else {
			next.ServeHTTP(w, r)
		}
	})
}

// errPanicked is the error of a handler that does not return. It may also have called
// runtime.Goexit.
var errPanicked = errors.New("panicked")

// serve serves and reports a request.
func (s *Server) serve(next http.Handler, w http.ResponseWriter, r *http.Request) {
	// next may change the request.
	method, path := r.Method, r.URL.Path
	ctx, sp := s.requests.Start(context.WithValue(r.Context(), headerKey{}, r.Header), requestStart{method, path, r.Host, r.RemoteAddr})
	if sp == nil { // the tracer has just detached
		next.ServeHTTP(w, r)
		return
	}
	sent := &recorder{ResponseWriter: w}
	mine := r.WithContext(ctx)
	err := errPanicked
	defer func() {
		giveBack(r, mine)
		sp.End(requestEnd{mine.Pattern, int32(sent.status), sent.bytes, method, path}, err)
	}()
	next.ServeHTTP(sent.writer(), mine)
	err = ctx.Err()
	if sent.status == 0 && !sent.hijacked {
		sent.status = http.StatusOK
	}
}

// giveBack sets in the server's request what handlers have set in their copy, and what those
// around them may look at: the pattern and its values, and the form, whose files the server
// deletes. A field that has not changed is not written, because others may be reading it.
func giveBack(to, from *http.Request) {
	if to.Form == nil && from.Form != nil {
		to.Form = from.Form
	}
	if to.PostForm == nil && from.PostForm != nil {
		to.PostForm = from.PostForm
	}
	if to.MultipartForm == nil && from.MultipartForm != nil {
		to.MultipartForm = from.MultipartForm
	}
	if to.Pattern == from.Pattern {
		return
	}
	to.Pattern = from.Pattern
	for rest := from.Pattern; ; {
		_, after, found := strings.Cut(rest, "{")
		name, after, closed := strings.Cut(after, "}")
		if !found || !closed {
			return
		}
		if name = strings.TrimSuffix(name, "..."); name != "$" {
			to.SetPathValue(name, from.PathValue(name))
		}
		rest = after
	}
}

// headerKey is the key of a request's header in the context of its Start.
type headerKey struct{}

// fromHeader is the TraceContext of a request: its traceparent header.
func fromHeader(ctx context.Context) (traceID [16]byte, spanID [8]byte, ok bool) {
	header, _ := ctx.Value(headerKey{}).(http.Header)
	if list := header["Traceparent"]; len(list) == 1 {
		return traceparent.Parse(list[0])
	}
	return traceID, spanID, false
}
