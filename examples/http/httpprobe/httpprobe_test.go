//go:build linux

package httpprobe

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/tracetest"

	"github.com/stretchr/testify/require"
)

func load(t testing.TB) (*stapsdt.Provider, *Probes) {
	t.Helper()
	p := stapsdt.NewProvider("httpprobe", stapsdt.WithDir(t.TempDir()))
	probes := New(p)
	require.NoError(t, p.Load())
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p, probes
}

// trace attaches to request__done, and returns what reads its arguments.
func trace(t *testing.T, p *stapsdt.Provider) func() []uint64 {
	t.Helper()
	tracetest.NeedUprobes(t)
	notes, err := tracetest.Notes(p.Path())
	require.NoError(t, err)
	note := notes[slices.IndexFunc(notes, func(n tracetest.Note) bool { return n.Name == "request__done" })]
	uprobe, err := tracetest.AttachUprobe(p.Path(), note.Offset)
	require.NoError(t, err)
	t.Cleanup(func() { uprobe.Close() })
	return func() (args []uint64) {
		sample, err := uprobe.Read(10 * time.Second)
		require.NoError(t, err)
		for _, a := range note.Args {
			arg, err := sample.Arg(a)
			require.NoError(t, err)
			args = append(args, arg)
		}
		return args
	}
}

func TestNothingIsDoneWhileNobodyTraces(t *testing.T) {
	_, probes := load(t)
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
	handler := probes.Handler(http.HandlerFunc(func(gotW http.ResponseWriter, gotR *http.Request) {
		if gotW != w || gotR != r {
			t.Error("the handler was not given what the server gave")
		}
	}))
	require.Zero(t, testing.AllocsPerRun(100, func() { handler.ServeHTTP(w, r) }))
	require.Zero(t, probes.ids.Load())
	require.Zero(t, RequestID(r.Context()))
}

func TestDone(t *testing.T) {
	p, probes := load(t)
	read := trace(t, p)
	for name, tt := range map[string]struct {
		handler func(w http.ResponseWriter)
		status  int
		bytes   int
	}{
		"nothing":   {func(http.ResponseWriter) {}, 200, 0},
		"implied":   {func(w http.ResponseWriter) { io.WriteString(w, "four") }, 200, 4},
		"not found": {func(w http.ResponseWriter) { http.Error(w, "no", 404) }, 404, 3},
		"hints":     {func(w http.ResponseWriter) { w.WriteHeader(103); w.WriteHeader(204) }, 204, 0},
		"twice":     {func(w http.ResponseWriter) { w.WriteHeader(201); w.WriteHeader(202) }, 201, 0},
		"switch":    {func(w http.ResponseWriter) { w.WriteHeader(101) }, 101, 0},
		"copy":      {func(w http.ResponseWriter) { io.Copy(w, struct{ io.Reader }{strings.NewReader("seven..")}) }, 200, 7},
		"flush":     {func(w http.ResponseWriter) { require.NoError(t, http.NewResponseController(w).Flush()) }, 200, 0},
		"panic":     {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 0, 0},
		"late":      {func(w http.ResponseWriter) { io.WriteString(w, "fo"); panic(http.ErrAbortHandler) }, 200, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var id uint64
			handler := probes.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				id = RequestID(r.Context())
				tt.handler(w)
			}))
			func() {
				defer func() { recover() }()
				handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
			}()
			args := read()
			require.NotZero(t, id)
			require.Equal(t, id, args[0])
			require.EqualValues(t, tt.status, args[3])
			require.EqualValues(t, tt.bytes, args[5])
			require.Less(t, args[4], uint64(time.Minute))
		})
	}
}

func BenchmarkHandler(b *testing.B) {
	_, probes := load(b)
	bare := http.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
	for name, handler := range map[string]http.Handler{"bare": bare, "idle": probes.Handler(bare)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				handler.ServeHTTP(w, r)
			}
		})
	}
}

// plainWriter can nothing but write.
type plainWriter struct{ http.ResponseWriter }

// TestWriterCanTheSame: a handler that asks what its ResponseWriter can is told the
// same while somebody traces.
func TestWriterCanTheSame(t *testing.T) {
	p, probes := load(t)
	can := map[bool][2]bool{}
	ask := probes.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, flushes := w.(http.Flusher)
		_, hijacks := w.(http.Hijacker)
		can[RequestID(r.Context()) != 0] = [2]bool{flushes, hijacks}
	}))
	server := httptest.NewServer(ask)
	defer server.Close()
	through := map[string]func(){
		"a server": func() {
			answer, err := http.Get(server.URL)
			require.NoError(t, err)
			answer.Body.Close()
		},
		"HTTP/2, as it were": func() { ask.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)) },
		"a plain writer": func() {
			ask.ServeHTTP(plainWriter{httptest.NewRecorder()}, httptest.NewRequest("GET", "/", nil))
		},
	}
	untraced := map[string][2]bool{}
	for name, run := range through {
		run()
		untraced[name] = can[false]
	}
	require.Equal(t, map[string][2]bool{"a server": {true, true}, "HTTP/2, as it were": {true, false}, "a plain writer": {false, false}}, untraced)
	trace(t, p)
	for name, run := range through {
		run()
		require.Equal(t, untraced[name], can[true], name)
	}
}
