package httpprobe

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/probetest"
	"github.com/go-stapsdt/stapsdt/span"

	"github.com/stretchr/testify/require"
)

// optional are the methods that a ResponseWriter may have.
var optional = []string{"Flush", "FlushError", "Hijack", "CloseNotify", "Push", "ReadFrom", "WriteString"}

// has returns those that w has.
func has(w http.ResponseWriter) (list []string) {
	for _, name := range optional {
		if _, ok := reflect.TypeOf(w).MethodByName(name); ok {
			list = append(list, name)
		}
	}
	return list
}

// TestSetsOfMethods: a handler that looks at what its ResponseWriter can do finds the same while it is traced: the
// writer has just the optional methods of the server's.
func TestSetsOfMethods(t *testing.T) {
	type (
		flush  interface{ Flush() }
		failed interface{ FlushError() error }
		hijack interface{ http.Hijacker }
		closed interface{ CloseNotify() <-chan bool }
		push   interface{ http.Pusher }
		from   interface{ io.ReaderFrom }
		text   interface{ io.StringWriter }
	)
	// No two methods are in the same sets, and each is missing in some.
	sets := []http.ResponseWriter{
		struct{ http.ResponseWriter }{},
		struct {
			http.ResponseWriter
			flush
			hijack
			push
			text
		}{},
		struct {
			http.ResponseWriter
			failed
			hijack
			from
			text
		}{},
		struct {
			http.ResponseWriter
			closed
			push
			from
			text
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
		r := &recorder{ResponseWriter: w}
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
	end := eventtest.Args(rec.Wait(1, testenv.Patience, probetest.OnlyNamed("request__end"))[0])
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
	end := eventtest.Args(rec.Events(probetest.OnlyNamed("request__end"))[0])
	require.Equal(t, []any{int64(0), int64(0), "", "/a"}, []any{end["status"], end["bytes"], end["error"], end["path"]})
}
