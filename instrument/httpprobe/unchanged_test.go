package httpprobe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/probetest"

	"github.com/stretchr/testify/require"
)

// wrap is ServerProbes.Handler or ServerProbes.PlainHandler.
type wrap func(http.Handler) http.Handler

var dates = regexp.MustCompile(`(?m)^Date: .*\r\n`)

// wire logs the bytes that a server answers to those of a client.
func wire(seen *eventtest.Log, h http.Handler, request string) {
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(testenv.Patience))
	io.WriteString(conn, strings.ReplaceAll(request, "\n", "\r\n"))
	answer, err := io.ReadAll(conn)
	var reset *net.OpError
	seen.Addf("%q %v", dates.ReplaceAllString(string(answer), ""), errors.As(err, &reset))
}

// both is two requests on a connection, the first of which says no more than its path.
func both(path string) string {
	return "GET " + path + " HTTP/1.1\nHost: h\n\nGET /last HTTP/1.1\nHost: h\nConnection: close\n\n"
}

// state is all of a request that middleware can see, if it has not replaced it.
func state(r *http.Request) string {
	return fmt.Sprint(r.Method, r.URL, r.Header, r.ContentLength, r.TransferEncoding, r.Close, r.Host, r.Form, r.PostForm, r.MultipartForm,
		r.Trailer, r.RemoteAddr == "", r.RequestURI, r.Pattern, r.PathValue("id"), r.PathValue("own"), r.Context().Value(stateKey{}), r.Body == http.NoBody)
}

type stateKey struct{}

// changes are what handlers may do to a request, and outer code sees when they have returned.
var changes = map[string]func(r *http.Request){
	"nothing":  func(*http.Request) {},
	"path":     func(r *http.Request) { r.URL.Path = "/changed" },
	"header":   func(r *http.Request) { r.Header.Set("A", "b") },
	"form":     func(r *http.Request) { r.Form = url.Values{"a": {"b"}} },
	"forms":    func(r *http.Request) { r.FormValue("q") },
	"pattern":  func(r *http.Request) { r.Pattern = "/{mine}" },
	"read":     func(r *http.Request) { io.ReadAll(r.Body) },
	"trailers": func(r *http.Request) { io.ReadAll(r.Body); r.Header.Set("Seen", fmt.Sprint(r.Trailer)) },
	"mux":      func(r *http.Request) { mux.ServeHTTP(httptest.NewRecorder(), r) },
	"mux in mux": func(r *http.Request) {
		mux.ServeHTTP(httptest.NewRecorder(), r)
		r.Pattern = "/{id}/{$}"
		r.SetPathValue("id", "8")
	},
	"own request": func(r *http.Request) { r = r.WithContext(context.Background()); r.Method = "NONE" },
}

// kept are what handlers may do to a request that stays in the copy while it is reported.
var kept = map[string]func(r *http.Request){
	"method":     func(r *http.Request) { r.Method = "PUT" },
	"URL":        func(r *http.Request) { r.URL = &url.URL{Path: "/other"} },
	"header":     func(r *http.Request) { r.Header = http.Header{"A": {"b"}} },
	"body":       func(r *http.Request) { r.Body = io.NopCloser(r.Body) },
	"length":     func(r *http.Request) { r.ContentLength = -1 << 40 },
	"encoding":   func(r *http.Request) { r.TransferEncoding = []string{"mine"} },
	"close":      func(r *http.Request) { r.Close = true },
	"host":       func(r *http.Request) { r.Host = "" },
	"trailer":    func(r *http.Request) { r.Trailer = http.Header{"T": {"u"}} },
	"remote":     func(r *http.Request) { r.RemoteAddr = "" },
	"URI":        func(r *http.Request) { r.RequestURI = "x" },
	"path value": func(r *http.Request) { r.SetPathValue("own", "value") },
	"context":    func(r *http.Request) { *r = *r.WithContext(context.WithValue(r.Context(), stateKey{}, "v")) },
	"other":      func(r *http.Request) { *r = http.Request{URL: &url.URL{}, Body: http.NoBody} },
}

// TestKept: outer code sees the request as it was, whatever handlers and transports set in it except what a mux sets.
func TestKept(t *testing.T) {
	p := eventtest.Provider(t, "httpprobe")
	probetest.Record(t, p)
	for name, change := range kept {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			before := *r
			NewServer(p).Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { change(r) })).ServeHTTP(httptest.NewRecorder(), r)
			require.Equal(t, before, *r)
			through := NewClient(p).Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
				change(r)
				return &http.Response{Body: http.NoBody}, nil
			}))
			_, err := through.RoundTrip(r)
			require.NoError(t, err)
			require.Equal(t, before, *r)
		})
	}
}

var mux = func() *http.ServeMux {
	m := http.NewServeMux()
	m.HandleFunc("/items/{id}", func(http.ResponseWriter, *http.Request) {})
	return m
}()

// endings are how handlers end.
var endings = map[string]func(){
	"returns": func() {},
	"panics":  func() { panic("mine") },
	"aborts":  func() { panic(http.ErrAbortHandler) },
	"exits":   runtime.Goexit,
}

// uriWriter is the ResponseWriter of middleware, which changes the request while it is answered.
type uriWriter struct {
	http.ResponseWriter
	r *http.Request
}

func (w uriWriter) WriteHeader(status int) {
	w.r.RequestURI += "!"
	w.ResponseWriter.WriteHeader(status)
}

// TestChangesReachMiddleware outside when the handler ends. What middleware changes meanwhile stays.
func TestChangesReachMiddleware(t *testing.T) {
	for name, request := range map[string]string{
		"no body":    "GET /items/7?q=r HTTP/1.1\nHost: h\nConnection: close\n\n",
		"undeclared": "POST /items/7?q=r HTTP/1.1\nHost: h\nConnection: close\nTransfer-Encoding: chunked\n\n3\nabc\n0\nFoo: bar\n\n",
		"declared":   "POST /items/7?q=r HTTP/1.1\nHost: h\nConnection: close\nTransfer-Encoding: chunked\nTrailer: Foo\n\n3\nabc\n0\nFoo: bar\n\n",
		"chunked":    "POST /items/7?q=r HTTP/1.1\nHost: h\nConnection: close\nTransfer-Encoding: chunked\n\n3\nabc\n0\n\n",
		"sized":      "POST /items/7?q=r HTTP/1.1\nHost: h\nConnection: close\nContent-Length: 3\n\nabc",
	} {
		for change, do := range changes {
			for how, end := range endings {
				t.Run(name+"/"+change+"/"+how, func(t *testing.T) {
					p := eventtest.Provider(t, "httpprobe")
					handler := NewServer(p).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						do(r)
						w.WriteHeader(299)
						do(r)
						end()
					}))
					eventtest.Unchanged(t, p, func(seen *eventtest.Log) {
						wire(seen, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
							seen.Addf("before: %s", state(r))
							defer func() { seen.Addf("after: %s %v", state(r), recover()) }()
							handler.ServeHTTP(uriWriter{w, r}, r)
						}), request)
					})
				})
			}
		}
	}
}

// methods returns the names of the methods of a value.
func methods(v any) (names []string) {
	for i := range reflect.TypeOf(v).NumMethod() {
		names = append(names, reflect.TypeOf(v).Method(i).Name)
	}
	return names
}

// handlers are what handlers do with a connection.
var handlers = map[string]http.HandlerFunc{
	"nothing": func(http.ResponseWriter, *http.Request) {},
	"text":    func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "text") },
	"twice":   func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(201); w.WriteHeader(500) },
	"wrong":   func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(7) },
	"hints":   func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(103); w.WriteHeader(404) },
	"abort":   func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "a"); panic(http.ErrAbortHandler) },
	"panic":   func(http.ResponseWriter, *http.Request) { panic("mine") },
	"exit":    func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "a"); runtime.Goexit() },
	"flush":   func(w http.ResponseWriter, r *http.Request) { w.(http.Flusher).Flush(); io.WriteString(w, "b") },
	"copy": func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, strings.NewReader(strings.Repeat("c", 1<<16)))
	},
	"trailers": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "T")
		io.WriteString(w, "text")
		w.Header().Set("T", "u")
		w.Header().Set(http.TrailerPrefix+"V", "w")
	},
	"length": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "2")
		io.WriteString(w, "long")
	},
	"hijack": func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		_, again := w.Write([]byte("late"))
		fmt.Fprint(conn, "mine ", err, " ", again)
		conn.Close()
	},
	"timeout": func(w http.ResponseWriter, r *http.Request) {
		over := make(chan struct{}) // a handler that ends with its time may be in time
		defer close(over)
		slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over })
		http.TimeoutHandler(slow, time.Millisecond, "late").ServeHTTP(w, r)
	},
	"methods":  func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, methods(w), methods(r.Body)) },
	"redirect": http.RedirectHandler("/there", http.StatusFound).ServeHTTP,
	"file":     func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "httpprobe.go") },
	"nil":      nil,
}

// TestWire: the client gets the same bytes.
func TestWire(t *testing.T) {
	for name, h := range handlers {
		for kind, wrap := range map[string]func(*ServerProbes) wrap{"Handler": func(s *ServerProbes) wrap { return s.Handler }, "PlainHandler": func(s *ServerProbes) wrap { return s.PlainHandler }} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				p := eventtest.Provider(t, "httpprobe")
				handler := wrap(NewServer(p))(h)
				eventtest.Unchanged(t, p, func(seen *eventtest.Log) { wire(seen, handler, both("/first")) })
			})
		}
	}
}

// TestMaxBytesReader closes the connection, by an unexported method of the server's writer.
func TestMaxBytesReader(t *testing.T) {
	p := eventtest.Provider(t, "httpprobe")
	handler := NewServer(p).PlainHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 10)); err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		}
	}))
	request := "POST / HTTP/1.1\nHost: h\nContent-Length: 1000\n\n" + strings.Repeat("x", 1000)
	eventtest.Unchanged(t, p, func(seen *eventtest.Log) { wire(seen, handler, request) })
}

// TestHTTP2: a client of HTTP/2 sees the same.
func TestHTTP2(t *testing.T) {
	for name, h := range handlers {
		if name == "hijack" || name == "timeout" {
			continue // it panics, and gets its time from the client
		}
		t.Run(name, func(t *testing.T) {
			p := eventtest.Provider(t, "httpprobe")
			handler := NewServer(p).Handler(h)
			through := NewClient(p)
			eventtest.Unchanged(t, p, func(seen *eventtest.Log) {
				server := httptest.NewUnstartedServer(handler)
				server.EnableHTTP2, server.Config.ErrorLog = true, log.New(io.Discard, "", 0)
				server.StartTLS()
				defer server.Close()
				client := server.Client()
				client.Transport = through.Transport(client.Transport)
				client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
				answer, err := client.Post(server.URL+"/a?q=r", "text/plain", strings.NewReader("body"))
				seen.Addf("%T %t", err, err == nil)
				if err != nil {
					return
				}
				defer answer.Body.Close()
				seen.Addf("%v", methods(answer.Body))
				answer.Header.Del("Date")
				text, err := io.ReadAll(answer.Body)
				seen.Addf("%s %s %v %q %T %v", answer.Proto, answer.Status, answer.Header, text, err, answer.Trailer)
			})
		})
	}
}

// counting is a ResponseWriter, a Body and a Context of the program, which log each call.
type counting struct {
	http.ResponseWriter
	io.Reader
	context.Context
	seen *eventtest.Log
}

func (c counting) Header() http.Header { c.seen.Addf("Header"); return c.ResponseWriter.Header() }
func (c counting) WriteHeader(status int) {
	c.seen.Addf("WriteHeader %d", status)
	c.ResponseWriter.WriteHeader(status)
}
func (c counting) Write(data []byte) (int, error) {
	c.seen.Addf("Write %q", data)
	return len(data), errors.New("mine")
}
func (c counting) WriteString(text string) (int, error) {
	c.seen.Addf("WriteString %q", text)
	return -1, nil
}
func (c counting) ReadFrom(io.Reader) (int64, error) { c.seen.Addf("ReadFrom"); return 0, nil }
func (c counting) Flush()                            { c.seen.Addf("Flush") }
func (c counting) FlushError() error                 { c.seen.Addf("FlushError"); return errors.New("mine") }
func (c counting) Push(string, *http.PushOptions) error {
	c.seen.Addf("Push")
	return nil
}
func (c counting) CloseNotify() <-chan bool { c.seen.Addf("CloseNotify"); return nil }
func (c counting) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c.seen.Addf("Hijack")
	return nil, nil, http.ErrNotSupported
}
func (c counting) Unwrap() http.ResponseWriter        { c.seen.Addf("Unwrap"); return c.ResponseWriter }
func (c counting) Read(data []byte) (int, error)      { c.seen.Addf("Read"); return c.Reader.Read(data) }
func (c counting) Close() error                       { c.seen.Addf("Close"); return errors.New("mine") }
func (c counting) Deadline() (at time.Time, set bool) { c.seen.Addf("Deadline"); return at, false }
func (c counting) Done() <-chan struct{}              { c.seen.Addf("Done"); return nil }
func (c counting) Err() error                         { c.seen.Addf("Err"); return nil }

func (c counting) Value(key any) any {
	c.seen.Addf("Value %T", key)
	return nil
}

// countingRequest is a request with a Body and a Context of the program.
func countingRequest(seen *eventtest.Log) *http.Request {
	c := counting{Reader: strings.NewReader("body"), seen: seen}
	r := httptest.NewRequest("POST", "http://host/items/7", nil)
	r.Body = c
	return r.WithContext(c)
}

// TestCalls: the program's values get the calls that the program makes.
func TestCalls(t *testing.T) {
	for name, do := range map[string]func(w http.ResponseWriter, r *http.Request){
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"panic":   func(http.ResponseWriter, *http.Request) { panic("mine") },
		"all of it": func(w http.ResponseWriter, r *http.Request) {
			w.Header()
			w.WriteHeader(200)
			w.Write([]byte("a"))
			io.WriteString(w, "b")
			io.Copy(w, strings.NewReader("c"))
			w.(http.Flusher).Flush()
			w.(flushError).FlushError()
			w.(http.Pusher).Push("", nil)
			w.(http.CloseNotifier).CloseNotify() //lint:ignore SA1019 it is what is tested
			w.(http.Hijacker).Hijack()
			http.NewResponseController(w).SetReadDeadline(time.Time{})
			http.NewResponseController(w).Flush()
			io.ReadAll(r.Body)
			r.Body.Close()
			ctx, cancel := context.WithCancel(r.Context())
			cancel()
			r.Context().Err()
			r.Context().Value(stateKey{})
			ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := eventtest.Provider(t, "httpprobe")
			handler := NewServer(p).Handler(http.HandlerFunc(do))
			eventtest.Unchanged(t, p, func(seen *eventtest.Log) {
				seen.Addf("begin")
				handler.ServeHTTP(counting{ResponseWriter: httptest.NewRecorder(), seen: seen}, countingRequest(seen))
			})
		})
	}
}

// TestHostile writers, requests and handlers get what they get untraced.
func TestHostile(t *testing.T) {
	for name, run := range map[string]func(h http.Handler){
		"no request": func(h http.Handler) { h.ServeHTTP(httptest.NewRecorder(), nil) },
		"no URL":     func(h http.Handler) { h.ServeHTTP(httptest.NewRecorder(), &http.Request{}) },
		"no writer":  func(h http.Handler) { h.ServeHTTP(nil, httptest.NewRequest("GET", "/", nil)) },
		"nil writer": func(h http.Handler) { h.ServeHTTP((*uriWriter)(nil), httptest.NewRequest("GET", "/", nil)) },
		"no more":    func(h http.Handler) { h.ServeHTTP(httptest.NewRecorder(), &http.Request{URL: &url.URL{}}) },
		"body that cannot be compared": func(h http.Handler) {
			r := httptest.NewRequest("GET", "/", nil)
			r.Body = incomparable{}
			h.ServeHTTP(httptest.NewRecorder(), r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := eventtest.Provider(t, "httpprobe")
			server := NewServer(p)
			eventtest.Unchanged(t, p, func(seen *eventtest.Log) {
				handler := server.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					seen.Addf("%t %t", w == nil, r == nil)
					if r != nil && r.Body != nil {
						r.Body = incomparable{make([]int, 2)}
					}
					w.WriteHeader(300)
				}))
				handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)) // which is observed
				run(handler)
			})
		})
	}
}

type incomparable struct{ list []int }

func (incomparable) Read([]byte) (int, error) { return 0, io.EOF }
func (incomparable) Close() error             { return nil }
