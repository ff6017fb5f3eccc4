package httpprobe

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/probetest"
	"github.com/go-stapsdt/stapsdt/span"

	"github.com/stretchr/testify/require"
)

// ownContext is a context whose methods are the program's.
type ownContext struct{ context.Context }

// copying are kinds of middleware that copy the request.
func copying(p *stapsdt.Provider) map[string]func(http.Handler) http.Handler {
	inner := span.NewOperation[struct{}, struct{}](p, "inner")
	through := func(derive func(context.Context) context.Context) func(http.Handler) http.Handler {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(w, r.WithContext(derive(r.Context())))
			})
		}
	}
	value := through(func(ctx context.Context) context.Context { return context.WithValue(ctx, stateKey{}, 1) })
	return map[string]func(http.Handler) http.Handler{
		"none":  func(next http.Handler) http.Handler { return next },
		"value": value,
		"span": through(func(ctx context.Context) context.Context {
			ctx, s := inner.Start(ctx, struct{}{})
			s.End(struct{}{}, nil)
			return ctx
		}),
		"span and value": func(next http.Handler) http.Handler {
			return value(through(func(ctx context.Context) context.Context {
				ctx, s := inner.Start(ctx, struct{}{})
				s.End(struct{}{}, nil)
				return context.WithoutCancel(ctx)
			})(next))
		},
		"timeout":      func(next http.Handler) http.Handler { return http.TimeoutHandler(next, testenv.Patience, "") }, // in another goroutine
		"prefix":       func(next http.Handler) http.Handler { return http.StripPrefix("", value(next)) },
		"another mux":  func(next http.Handler) http.Handler { m := http.NewServeMux(); m.Handle("/", value(next)); return m },
		"own context":  through(func(ctx context.Context) context.Context { return ownContext{ctx} }),
		"other server": func(next http.Handler) http.Handler { return NewServer(nil).Handler(value(next)) },
	}
}

// TestRoute: the route is there, whatever middleware does with the request in between, and the program notices nothing.
func TestRoute(t *testing.T) {
	p := eventtest.Provider(t, "httpprobe")
	server := NewServer(p)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.PathValue("id")+r.Pattern) })
	mux.HandleFunc("/panic", func(http.ResponseWriter, *http.Request) { panic("mine") })
	for name, middleware := range copying(p) {
		for path, want := range map[string]string{"/items/7": "GET /items/{id}", "/panic": "/panic", "/nothing": ""} {
			t.Run(name+path, func(t *testing.T) {
				switch {
				case name == "own context": // whose methods are not called
					want = ""
				case name == "another mux" && want == "":
					want = "/"
				}
				handler := server.Handler(middleware(server.Route(mux)))
				serve := func(seen *eventtest.Log) {
					w, r := httptest.NewRecorder(), httptest.NewRequest("GET", path, nil)
					defer func() { seen.Addf("%d %s %q %q %v", w.Code, w.Body, w.Header(), r.Pattern, recover()) }()
					handler.ServeHTTP(w, r)
				}
				eventtest.Unchanged(t, p, serve)
				rec := probetest.Record(t, p)
				serve(&eventtest.Log{})
				ends := rec.Events(probetest.OnlyNamed("request__end"))
				require.Len(t, ends, 1)
				require.Equal(t, want, eventtest.Args(ends[0])["route"])
			})
		}
	}
}

// TestRouteAttachedInside: a request of which the tracer has seen no start has no route to keep.
func TestRouteAttachedInside(t *testing.T) {
	p := eventtest.Provider(t, "httpprobe")
	server := NewServer(p)
	var rec *probetest.Recorder
	handler := server.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec = probetest.Record(t, p)
		server.Route(mux).ServeHTTP(w, r)
	}))
	r := httptest.NewRequest("GET", "/items/7", nil)
	handler.ServeHTTP(httptest.NewRecorder(), r)
	require.Equal(t, "/items/{id}", r.Pattern)
	require.Empty(t, rec.Events())
}

// TestIdleRoute: while nothing traces, the mux gets what the server passes, and nothing is allocated.
func TestIdleRoute(t *testing.T) {
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
	handler := NewServer(eventtest.Provider(t, "httpprobe")).Route(http.HandlerFunc(func(gotW http.ResponseWriter, gotR *http.Request) {
		if gotW != w || gotR != r {
			t.Error("the mux was not given what the server gave")
		}
	}))
	testenv.NotRaced(t, "the detector allocates")
	require.Zero(t, testing.AllocsPerRun(100, func() { handler.ServeHTTP(w, r) }))
}
