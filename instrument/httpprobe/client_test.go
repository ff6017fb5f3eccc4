package httpprobe

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/probetest"
	"github.com/go-stapsdt/stapsdt/span"

	"github.com/stretchr/testify/require"
)

// fetches returns a client that is recorded, and a server for it.
func fetches(t *testing.T, http2 bool, h http.HandlerFunc) (*probetest.Recorder, *http.Client, *httptest.Server) {
	p := eventtest.Provider(t, "httpprobe")
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = http2
	server.StartTLS()
	t.Cleanup(server.Close)
	client := server.Client()
	client.Transport.(*http.Transport).TLSClientConfig.ServerName = "example.com" // whatever the URL's host is
	client.Transport = NewClient(p).Transport(client.Transport)
	return probetest.Record(t, p), client, server
}

func TestFetch(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			rec, client, server := fetches(t, http2, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(5 * time.Millisecond)
				w.WriteHeader(418)
				io.WriteString(w, "short")
			})
			url := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
			_, hostPort, _ := strings.Cut(url, "//")
			gotConn := 0
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { gotConn++ }})
			for i := range 2 {
				r, err := http.NewRequestWithContext(ctx, "DELETE", url+"/a?secret", nil)
				require.NoError(t, err)
				answer, err := client.Do(r)
				require.NoError(t, err)
				require.Same(t, r, answer.Request)
				require.Empty(t, rec.Events(probetest.OnlyNamed("fetch__end")))
				text, err := io.ReadAll(answer.Body)
				require.NoError(t, err)
				require.Equal(t, "short", string(text))
				require.NoError(t, answer.Body.Close())
				require.Equal(t, i+1, gotConn, "the program's own trace was replaced")
				events := rec.Events()
				require.Len(t, events, 2)
				rec.Reset()
				start, end := eventtest.Args(events[0]), eventtest.Args(events[1])
				require.Equal(t, map[string]any{"id": end["id"], "parent": uint64(0), "method": "DELETE", "host": hostPort, "path": "/a"}, start)
				require.Equal(t, []any{"", hostPort, int64(418), int64(5), "DELETE"}, []any{end["error"], end["host"], end["status"], end["bytes"], end["method"]})
				total := end["nanoseconds"].(time.Duration)
				require.GreaterOrEqual(t, end["first_byte"], 5*time.Millisecond)
				require.LessOrEqual(t, end["first_byte"], total)
				if i == 0 {
					require.Greater(t, end["dns"], time.Duration(0))
					require.Greater(t, end["connect"], time.Duration(0))
					require.Greater(t, end["tls"], time.Duration(0))
					require.Less(t, end["dns"].(time.Duration)+end["tls"].(time.Duration), total)
				} else {
					require.Equal(t, []any{time.Duration(0), time.Duration(0), time.Duration(0)}, []any{end["dns"], end["connect"], end["tls"]})
				}
			}
		})
	}
}

// fileBody is a body of the program's own type, with methods of its own.
type fileBody struct {
	io.ReadCloser
	io.Seeker
}

// httpBody returns a body of net/http's own type.
func httpBody(text string) io.ReadCloser {
	answer, err := http.ReadResponse(bufio.NewReader(strings.NewReader("HTTP/1.0 200 OK\r\n\r\n"+text)), nil)
	if err != nil {
		panic(err)
	}
	return answer.Body
}

// TestOwnBody: a body that the program can tell from others is not replaced while it is traced, attached at any
// moment. Its fetch ends when it is there.
func TestOwnBody(t *testing.T) {
	p := eventtest.Provider(t, "httpprobe")
	pipe, _ := io.Pipe()
	for name, own := range map[string]io.ReadCloser{
		"pointer": &fileBody{io.NopCloser(strings.NewReader("text")), strings.NewReader("text")},
		"struct":  fileBody{io.NopCloser(strings.NewReader("text")), strings.NewReader("text")},
		"unnamed": struct{ io.ReadCloser }{io.NopCloser(strings.NewReader("text"))}, "exported": pipe, "none": nil, "nil": (*fileBody)(nil),
		"NopCloser": io.NopCloser(strings.NewReader("text")), // which net/http sends on in another way than others
	} {
		t.Run(name, func(t *testing.T) {
			through := NewClient(p).Transport(roundTripper(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Body: own}, nil
			}))
			rec := probetest.Record(t, p)
			answer, err := through.RoundTrip(httptest.NewRequest("GET", "/a", nil))
			require.NoError(t, err)
			require.Equal(t, own, answer.Body)
			ends := rec.Events(probetest.OnlyNamed("fetch__end"))
			require.Len(t, ends, 1)
			require.EqualValues(t, 200, eventtest.Args(ends[0])["status"])
		})
	}
}

// TestFetchEnds: each way that a response can be used ends its fetch once.
func TestFetchEnds(t *testing.T) {
	rec, client, server := fetches(t, false, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/empty":
			w.WriteHeader(204)
		case "/cut":
			w.Header().Set("Content-Length", "9")
			io.WriteString(w, "cut")
		case "/redirect":
			http.Redirect(w, r, "/", http.StatusSeeOther)
		case "/switch":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			conn.Close()
		case "/stuck":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			io.WriteString(w, "whole")
		}
	})
	for name, tt := range map[string]struct {
		path   string
		use    func(*http.Response)
		ends   int
		status int64
		bytes  int64
		err    string
	}{
		"read":     {"/", func(a *http.Response) { io.ReadAll(a.Body) }, 1, 200, 5, ""},
		"closed":   {"/", func(a *http.Response) { a.Body.Close(); a.Body.Close() }, 1, 200, 0, ""},
		"both":     {"/", func(a *http.Response) { io.ReadAll(a.Body); a.Body.Close() }, 1, 200, 5, ""},
		"empty":    {"/empty", func(a *http.Response) { require.Equal(t, http.NoBody, a.Body) }, 1, 204, 0, ""},
		"cut":      {"/cut", func(a *http.Response) { io.ReadAll(a.Body); a.Body.Close() }, 1, 200, 3, "unexpected EOF"},
		"redirect": {"/redirect", func(a *http.Response) { io.ReadAll(a.Body) }, 2, 200, 5, ""},
		"switch": {"/switch", func(a *http.Response) {
			_, writes := a.Body.(io.Writer)
			require.True(t, writes)
			a.Body.Close()
		}, 1, 101, 0, ""},
		"dropped": {"/stuck", func(*http.Response) {}, 0, 0, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rec.Reset()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, "GET", server.URL+tt.path, nil)
			require.NoError(t, err)
			if tt.path == "/switch" {
				r.Header.Set("Connection", "Upgrade")
				r.Header.Set("Upgrade", "x")
			}
			answer, err := client.Do(r)
			require.NoError(t, err)
			tt.use(answer)
			ends := rec.Events(probetest.OnlyNamed("fetch__end"))
			require.Len(t, ends, tt.ends)
			if tt.ends > 0 {
				end := eventtest.Args(ends[len(ends)-1])
				require.Equal(t, []any{tt.status, tt.bytes, tt.err}, []any{end["status"], end["bytes"], end["error"]})
			}
		})
	}
}

// TestFetchFails: a request without a response has an error, and so has one whose context is
// cancelled while its response is read.
func TestFetchFails(t *testing.T) {
	read := make(chan struct{})
	rec, client, server := fetches(t, false, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "some")
		w.(http.Flusher).Flush()
		<-read // and not the end of r's context, at which the response could end as if complete
	})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
	require.NoError(t, err)
	answer, err := client.Do(r)
	require.NoError(t, err)
	_, err = io.ReadFull(answer.Body, make([]byte, 4))
	require.NoError(t, err)
	cancel()
	_, err = io.ReadAll(answer.Body)
	close(read)
	require.ErrorIs(t, err, context.Canceled)
	answer.Body.Close()
	end := eventtest.Args(rec.Events(probetest.OnlyNamed("fetch__end"))[0])
	require.Equal(t, []any{"context canceled", int64(4), int64(200)}, []any{end["error"], end["bytes"], end["status"]})

	server.CloseClientConnections()
	server.Close()
	rec.Reset()
	_, err = client.Get(server.URL)
	require.Error(t, err)
	end = eventtest.Args(rec.Events(probetest.OnlyNamed("fetch__end"))[0])
	require.Contains(t, err.Error(), end["error"])
	require.NotEmpty(t, end["error"])
	require.EqualValues(t, 0, end["status"])
}

// TestFetchParent: what a handler fetches belongs to its request.
func TestFetchParent(t *testing.T) {
	p := eventtest.Provider(t, "httpprobe")
	client := &http.Client{Transport: NewClient(p).Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
		require.NotZero(t, span.ID(r.Context()))
		return &http.Response{StatusCode: 200, Body: http.NoBody, Request: r}, nil
	}))}
	handler := NewServer(p).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, err := http.NewRequestWithContext(r.Context(), "GET", "http://other/", nil)
		require.NoError(t, err)
		_, err = client.Do(out)
		require.NoError(t, err)
	}))
	rec := probetest.Record(t, p)
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	request, fetch := eventtest.Args(rec.Events(probetest.OnlyNamed("request__start"))[0]), eventtest.Args(rec.Events(probetest.OnlyNamed("fetch__start"))[0])
	require.Equal(t, request["id"], fetch["parent"])
}

type legacy struct {
	roundTripper
	closed, canceled int
}

func (l *legacy) CloseIdleConnections()       { l.closed++ }
func (l *legacy) CancelRequest(*http.Request) { l.canceled++ }

// TestTransportIsLikeItsNext: it has the same optional methods, and panics like it.
func TestTransportIsLikeItsNext(t *testing.T) {
	p := eventtest.Provider(t, "httpprobe")
	fetches := NewClient(p)
	plain := fetches.Transport(roundTripper(nil))
	_, idles := plain.(closeIdler)
	_, cancels := plain.(canceler)
	require.False(t, idles || cancels)
	next := &legacy{}
	through := fetches.Transport(next)
	through.(closeIdler).CloseIdleConnections()
	through.(canceler).CancelRequest(nil)
	require.Equal(t, []int{1, 1}, []int{next.closed, next.canceled})
	_, idles = fetches.Transport(struct {
		http.RoundTripper
		closeIdler
	}{}).(closeIdler)
	_, cancels = fetches.Transport(struct {
		http.RoundTripper
		canceler
	}{}).(canceler)
	require.True(t, idles && cancels)
	_, idles = fetches.Transport(nil).(closeIdler)
	require.True(t, idles, "http.DefaultTransport")

	rec := probetest.Record(t, p)
	next.roundTripper = func(*http.Request) (*http.Response, error) { panic("mine") }
	require.PanicsWithValue(t, "mine", func() { through.RoundTrip(httptest.NewRequest("GET", "/", nil)) })
	require.Equal(t, "panicked", eventtest.Args(rec.Events(probetest.OnlyNamed("fetch__end"))[0])["error"])
}

// TestOneProvider: a server and a client share it, and so do several handlers.
func TestOneProvider(t *testing.T) {
	p := stapsdt.NewProvider("httpprobe")
	server := NewServer(p)
	server.Handler(nil)
	server.Handler(nil)
	NewClient(p)
	require.Len(t, p.Probes(), 5)
}

// TestResponseAgain: a transport may return the same response again and again. Its body does not
// grow with each fetch, also not through several transports.
func TestResponseAgain(t *testing.T) {
	p := eventtest.Provider(t, "again")
	probetest.Record(t, p)
	answer := &http.Response{Body: httpBody("")}
	answers := roundTripper(func(*http.Request) (*http.Response, error) { return answer, nil })
	client := NewClient(p)
	c := client.Transport(client.Transport(answers))
	for range 100 {
		r, err := http.NewRequest("GET", "http://x/", nil)
		require.NoError(t, err)
		got, err := c.RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, got.Body.Close())
	}
	depth := 0
	for b := answer.Body; ; depth++ {
		mine, ok := b.(*body)
		if !ok {
			break
		}
		b = mine.ReadCloser
	}
	require.Equal(t, 2, depth)
}

// TestResponseOfSeveral: nothing is written to a response without a body, which several
// goroutines may get at once. The race detector sees it.
func TestResponseOfSeveral(t *testing.T) {
	p := eventtest.Provider(t, "several")
	probetest.Record(t, p)
	answer := &http.Response{Body: http.NoBody}
	c := NewClient(p).Transport(roundTripper(func(*http.Request) (*http.Response, error) { return answer, nil }))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				r, _ := http.NewRequest("GET", "http://x/", nil)
				_, err := c.RoundTrip(r)
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// afterCtx is a context of a program that needs no goroutine for the contexts below it.
type afterCtx struct {
	context.Context
	done chan struct{}
}

func (c afterCtx) Done() <-chan struct{}               { return c.done }
func (c afterCtx) AfterFunc(func()) (stop func() bool) { return func() bool { return true } }

// TestAfterFuncer: package context starts no goroutine for a context that a handler or a
// transport derives, as it starts none untraced.
func TestAfterFuncer(t *testing.T) {
	p := eventtest.Provider(t, "after")
	probetest.Record(t, p)
	ctx := afterCtx{t.Context(), make(chan struct{})}
	derive := func(ctx context.Context) {
		_, cancel := context.WithCancel(ctx)
		defer cancel()
		require.Zero(t, testenv.GoroutinesOf("context"))
	}
	server := NewServer(p)
	for range 3 {
		h := server.Handler(server.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { derive(r.Context()) })))
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
	}
	c := NewClient(p).Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
		derive(r.Context())
		return &http.Response{Body: http.NoBody}, nil
	}))
	r, err := http.NewRequestWithContext(ctx, "GET", "http://x/", nil)
	require.NoError(t, err)
	_, err = c.RoundTrip(r)
	require.NoError(t, err)
}
