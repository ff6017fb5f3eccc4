package httpprobe

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/probetest"
	"github.com/go-stapsdt/stapsdt/span"

	"github.com/stretchr/testify/require"
)

func TestIdle(t *testing.T) {
	p := eventtest.Provider(t, "httpprobe")
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
	handler := NewServer(p).Handler(http.HandlerFunc(func(gotW http.ResponseWriter, gotR *http.Request) {
		if gotW != w || gotR != r {
			t.Error("the handler was not given what the server gave")
		}
	}))
	answer := &http.Response{}
	through := NewClient(p).Transport(roundTripper(func(got *http.Request) (*http.Response, error) {
		if got != r {
			t.Error("the transport was not given what the client gave")
		}
		return answer, nil
	}))
	run := func() {
		handler.ServeHTTP(w, r)
		if got, err := through.RoundTrip(r); got != answer || err != nil {
			t.Error("the client was not given what the transport gave")
		}
	}
	run()
	testenv.NotRaced(t, "the detector allocates")
	require.Zero(t, testing.AllocsPerRun(100, run))
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestStatus(t *testing.T) {
	p, rec := eventtest.Recorded(t, "httpprobe")
	server := NewServer(p)
	for name, tt := range map[string]struct {
		handler func(w http.ResponseWriter)
		status  int32
		bytes   int64
		err     string
	}{
		"nothing":     {func(http.ResponseWriter) {}, 200, 0, ""},
		"implied":     {func(w http.ResponseWriter) { w.Write([]byte("four")) }, 200, 4, ""},
		"string":      {func(w http.ResponseWriter) { io.WriteString(w, "four") }, 200, 4, ""},
		"not found":   {func(w http.ResponseWriter) { http.Error(w, "no", 404) }, 404, 3, ""},
		"hints":       {func(w http.ResponseWriter) { w.WriteHeader(103); w.WriteHeader(204) }, 204, 0, ""},
		"twice":       {func(w http.ResponseWriter) { w.WriteHeader(201); w.WriteHeader(202) }, 201, 0, ""},
		"switch":      {func(w http.ResponseWriter) { w.WriteHeader(101) }, 101, 0, ""},
		"copy":        {func(w http.ResponseWriter) { io.Copy(w, struct{ io.Reader }{strings.NewReader("seven..")}) }, 200, 7, ""},
		"flush":       {func(w http.ResponseWriter) { http.NewResponseController(w).Flush(); panic(1) }, 200, 0, "panicked"},
		"panic":       {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 0, 0, "panicked"},
		"late":        {func(w http.ResponseWriter) { io.WriteString(w, "fo"); panic(http.ErrAbortHandler) }, 200, 2, "panicked"},
		"not changed": {func(w http.ResponseWriter) { w.Header().Set("A", "b"); w.WriteHeader(304) }, 304, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rec.Reset()
			var id uint64
			handler := server.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				id = span.ID(r.Context())
				tt.handler(w)
			}))
			r := httptest.NewRequest("PUT", "http://host/a/b?secret", nil)
			func() {
				defer func() { recover() }()
				handler.ServeHTTP(httptest.NewRecorder(), r)
			}()
			require.NotZero(t, id)
			require.Zero(t, span.ID(r.Context()))
			rec.Want(func() {
				stapsdt.NewProbe6[uint64, uint64, string, string, string, string](p, "request__start", "id", "parent", "method", "path", "host", "remote").Fire(id, 0, "PUT", "/a/b", "host", r.RemoteAddr)
				stapsdt.NewProbeOf[wantEnd](p, "request__end").Fire(wantEnd{ID: id, Error: tt.err, Status: tt.status, Bytes: tt.bytes, Method: "PUT", Path: "/a/b"})
			}, probetest.Ignore("nanoseconds"))
		})
	}
}

type wantEnd struct {
	ID, Parent   uint64
	Nanoseconds  time.Duration
	Error, Route string
	Status       int32
	Bytes        int64
	Method, Path string
}

// TestUploadIsDeleted: the server deletes the files of a form, which it looks for in its own
// request.
func TestUploadIsDeleted(t *testing.T) {
	p := eventtest.Provider(t, "httpprobe")
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir)
	server := httptest.NewServer(NewServer(p).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1); err != nil {
			t.Error(err)
		}
		files, err := os.ReadDir(dir)
		if err != nil || len(files) != 1 {
			t.Error("there is no file", err)
		}
	})))
	defer server.Close()
	probetest.Record(t, p)
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	file, err := parts.CreateFormFile("file", "name")
	require.NoError(t, err)
	_, err = file.Write(make([]byte, 11<<20))
	require.NoError(t, err)
	require.NoError(t, parts.Close())
	answer, err := http.Post(server.URL, parts.FormDataContentType(), &form)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, 200, answer.StatusCode)
	require.Eventually(t, func() bool {
		files, err := os.ReadDir(dir)
		return err == nil && len(files) == 0
	}, testenv.Patience, time.Millisecond)
}

// TestClientGone: a request whose client has gone has an error.
func TestClientGone(t *testing.T) {
	p := eventtest.Provider(t, "httpprobe")
	started := make(chan bool)
	server := httptest.NewServer(NewServer(p).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(started)
		<-r.Context().Done()
	})))
	defer server.Close()
	rec := probetest.Record(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
	require.NoError(t, err)
	go func() {
		<-started
		cancel()
	}()
	_, err = http.DefaultClient.Do(r)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "context canceled", eventtest.Args(rec.Wait(1, testenv.Patience, probetest.OnlyNamed("request__end"))[0])["error"])
}

func TestTraceparent(t *testing.T) {
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	p, rec := eventtest.Recorded(t, "httpprobe")
	handler := NewServer(p).Handler(http.NotFoundHandler())
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("traceparent", "00-"+trace+"-"+parent+"-01")
	handler.ServeHTTP(httptest.NewRecorder(), r)
	events := rec.Events(probetest.OnlyNamed("request__context"))
	require.Len(t, events, 1)
	e := eventtest.Args(events[0])
	require.Equal(t, trace+parent, fmt.Sprintf("%016x%016x%016x", e["trace_high"], e["trace_low"], e["span"]))
	r.Header.Add("traceparent", "00-"+trace+"-"+parent+"-01")
	handler.ServeHTTP(httptest.NewRecorder(), r)
	require.Len(t, rec.Events(probetest.OnlyNamed("request__context")), 1)
	require.Len(t, rec.Events(probetest.OnlyNamed("request__start")), 2)
}
