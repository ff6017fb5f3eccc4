package httpprobe

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/probetest"
	"github.com/go-stapsdt/stapsdt/span"

	"github.com/stretchr/testify/require"
)

// has returns those that w has.
func has(w http.ResponseWriter) (list []string) {
	for _, name := range optional {
		if _, ok := reflect.TypeOf(w).MethodByName(name); ok {
			list = append(list, name)
		}
	}
	return list
}

// plainWriter can only write.
type plainWriter struct{ http.ResponseWriter }

// TestWriterHasTheSameMethods: a handler that looks at what its ResponseWriter can do finds the same
// while it is traced, and all of it works.
func TestWriterHasTheSameMethods(t *testing.T) {
	p := eventtest.Provider(t, "httpprobe")
	server := NewServer(p)
	type result struct {
		Methods    []string
		Deadline   bool
		FullDuplex bool
	}
	through := map[string]func(http.Handler){
		"HTTP/1": func(h http.Handler) { get(t, h, false) },
		"HTTP/2": func(h http.Handler) { get(t, h, true) },
		"recorder": func(h http.Handler) {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		},
		"timeout": func(h http.Handler) { get(t, http.TimeoutHandler(h, testenv.Patience, "late"), false) },
		"plain": func(h http.Handler) {
			h.ServeHTTP(plainWriter{httptest.NewRecorder()}, httptest.NewRequest("GET", "/", nil))
		},
	}
	ask := func(run func(http.Handler)) (r result, traced bool) {
		run(server.Handler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			control := http.NewResponseController(w)
			r = result{has(w), control.SetReadDeadline(time.Time{}) == nil, control.EnableFullDuplex() == nil}
			traced = span.ID(req.Context()) != 0
		})))
		return r, traced
	}
	untraced := map[string]result{}
	for name, run := range through {
		var traced bool
		untraced[name], traced = ask(run)
		require.False(t, traced)
	}
	require.Equal(t, map[string]result{
		"HTTP/1":   {[]string{"Flush", "FlushError", "Hijack", "CloseNotify", "ReadFrom", "WriteString"}, true, true},
		"HTTP/2":   {[]string{"Flush", "FlushError", "CloseNotify", "Push", "WriteString"}, true, true},
		"recorder": {[]string{"Flush", "WriteString"}, false, false},
		"timeout":  {[]string{"Push"}, false, false},
		"plain":    {nil, false, false},
	}, untraced)
	probetest.Record(t, p)
	for name, run := range through {
		got, traced := ask(run)
		require.True(t, traced)
		require.Equal(t, untraced[name], got, name)
	}
}

// get gets / from a handler.
func get(t *testing.T, h http.Handler, http2 bool) {
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = http2
	if http2 {
		server.StartTLS()
	} else {
		server.Start()
	}
	defer server.Close()
	answer, err := server.Client().Get(server.URL)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http2, answer.ProtoMajor == 2)
}

// TestEverySetOfMethods: for each set of optional methods, the writer has just these.
func TestEverySetOfMethods(t *testing.T) {
	type (
		flush  interface{ Flush() }
		failed interface{ FlushError() error }
		hijack interface{ http.Hijacker }
		closed interface{ CloseNotify() <-chan bool }
		push   interface{ http.Pusher }
		from   interface{ io.ReaderFrom }
		text   interface{ io.StringWriter }
	)
	sets := []http.ResponseWriter{
		struct{ http.ResponseWriter }{},
		struct {
			http.ResponseWriter
			flush
		}{},
		struct {
			http.ResponseWriter
			failed
		}{},
		struct {
			http.ResponseWriter
			hijack
		}{},
		struct {
			http.ResponseWriter
			closed
		}{},
		struct {
			http.ResponseWriter
			push
		}{},
		struct {
			http.ResponseWriter
			from
		}{},
		struct {
			http.ResponseWriter
			text
		}{},
		struct {
			http.ResponseWriter
			failed
			hijack
			closed
			push
			from
			text
		}{},
		struct {
			http.ResponseWriter
			flush
			hijack
			push
			text
		}{},
		struct {
			http.ResponseWriter
			flush
			failed
			closed
			from
		}{},
		struct {
			http.ResponseWriter
			flush
			failed
			hijack
			closed
			push
			from
			text
		}{},
	}
	for _, w := range sets {
		r := &recorder{ResponseWriter: w, request: &request{}}
		require.Equal(t, has(w), has(r.writer()))
		require.Same(t, r, r.writer().(interface{ self() *recorder }).self())
	}
}

func (r *recorder) self() *recorder { return r }

// TestHijack: a handler that takes over the connection has no status.
func TestHijack(t *testing.T) {
	p := eventtest.Provider(t, "httpprobe")
	server := httptest.NewServer(NewServer(p).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 299 Mine\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
		if _, err := w.Write([]byte("more")); !errors.Is(err, http.ErrHijacked) {
			t.Error(err)
		}
	})))
	defer server.Close()
	rec := probetest.Record(t, p)
	answer, err := http.Get(server.URL)
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, "hi", string(text))
	require.Equal(t, 299, answer.StatusCode)
	end := eventtest.Args(rec.Wait(testenv.Patience, 1, eventtest.Named("request__end"))[0])
	require.EqualValues(t, 0, end["status"])
	require.EqualValues(t, 0, end["bytes"])
}

// TestPlainHandler passes the server's ResponseWriter, and reports nothing of the response.
func TestPlainHandler(t *testing.T) {
	p := eventtest.Provider(t, "httpprobe")
	given := httptest.NewRecorder()
	handler := NewServer(p).PlainHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Same(t, given, w)
		require.NotZero(t, span.ID(r.Context()))
		http.Error(w, "text", 404)
	}))
	rec := probetest.Record(t, p)
	handler.ServeHTTP(given, httptest.NewRequest("GET", "/a", nil))
	end := eventtest.Args(rec.Events(eventtest.Named("request__end"))[0])
	require.Equal(t, []any{int64(0), int64(0), "", "/a"}, []any{end["status"], end["bytes"], end["error"], end["path"]})
}
