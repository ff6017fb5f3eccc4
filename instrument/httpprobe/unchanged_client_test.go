package httpprobe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// transports are RoundTrippers of a program, some of which do what none should.
var transports = map[string]func(seen *eventtest.Log) roundTripper{
	"nothing": func(*eventtest.Log) roundTripper {
		return func(*http.Request) (*http.Response, error) { return nil, nil }
	},
	"error": func(*eventtest.Log) roundTripper {
		return func(*http.Request) (*http.Response, error) { return nil, errors.New("mine") }
	},
	"both": func(*eventtest.Log) roundTripper {
		return func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: 7}, io.EOF }
	},
	"panic": func(*eventtest.Log) roundTripper {
		return func(*http.Request) (*http.Response, error) { panic("mine") }
	},
	"nil": func(*eventtest.Log) roundTripper { return nil },
	"no body": func(*eventtest.Log) roundTripper {
		return func(*http.Request) (*http.Response, error) { return &http.Response{}, nil }
	},
	"nil body": func(*eventtest.Log) roundTripper {
		return func(*http.Request) (*http.Response, error) { return &http.Response{Body: (*incomparable)(nil)}, nil }
	},
	"body": func(seen *eventtest.Log) roundTripper {
		return func(*http.Request) (*http.Response, error) {
			return &http.Response{Body: counting{Reader: strings.NewReader("text"), seen: seen}}, nil
		}
	},
	"request": func(seen *eventtest.Log) roundTripper {
		return func(r *http.Request) (*http.Response, error) {
			r.Header.Set("A", "b")
			return &http.Response{Request: r, Body: http.NoBody}, nil
		}
	},
	"reader": func(seen *eventtest.Log) roundTripper {
		return func(r *http.Request) (*http.Response, error) {
			io.Copy(io.Discard, r.Body)
			r.Body.Close()
			return &http.Response{Request: r, Body: io.NopCloser(strings.NewReader("text"))}, nil
		}
	},
	"goroutine": func(seen *eventtest.Log) roundTripper {
		return func(r *http.Request) (*http.Response, error) {
			go func() { // which is left
				if r != nil && r.Close {
					panic("changed")
				}
			}()
			return &http.Response{Request: r, Body: http.NoBody}, nil
		}
	},
	"context": func(seen *eventtest.Log) roundTripper {
		return func(r *http.Request) (*http.Response, error) {
			r.Context().Done()
			r.Context().Err()
			return nil, context.Cause(r.Context())
		}
	},
}

// TestTransports of the program do the same, and its values get the same calls.
func TestTransports(t *testing.T) {
	for name, next := range transports {
		t.Run(name, func(t *testing.T) {
			p := eventtest.Provider(t, "httpprobe")
			client := NewClient(p)
			eventtest.Unchanged(t, p, func(seen *eventtest.Log) {
				through := client.Transport(next(seen))
				for _, r := range []*http.Request{countingRequest(seen), httptest.NewRequest("GET", "/", strings.NewReader("body")), {}, nil} {
					func() {
						defer func() { seen.Addf("%v", recover()) }()
						answer, err := through.RoundTrip(r)
						if r != nil {
							seen.Addf("%s %s %v %t %v", r.Method, r.Host, r.Header, r.Body == http.NoBody, r.URL)
						}
						seen.Addf("%T %v", err, err)
						if answer != nil {
							seen.Addf("%d %t %t", answer.StatusCode, answer.Request == r, answer.Body == nil)
							text, err := io.ReadAll(answer.Body)
							seen.Addf("%s %v %v", text, err, answer.Body.Close())
						}
					}()
				}
			})
		})
	}
}

// TestClientWire: the server gets the same bytes, the program's hooks are called, and the
// client gets the same response. Each request has a connection of its own, because net/http's
// Transport drops one whose writer has not been scheduled for 50 ms.
func TestClientWire(t *testing.T) {
	p := eventtest.Provider(t, "httpprobe")
	client := NewClient(p)
	eventtest.Unchanged(t, p, func(seen *eventtest.Log) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, err := io.ReadAll(r.Body)
			r.Header.Del("Referer")
			seen.Addf("server: %s %s %v %q %v %v", r.Method, r.URL, r.Header, text, err, r.Trailer)
			switch r.URL.Path {
			case "/redirect":
				http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
				http.Redirect(w, r, "/there", http.StatusTemporaryRedirect)
			case "/hints":
				w.Header().Set("Link", "x")
				w.WriteHeader(http.StatusEarlyHints)
			case "/abort":
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Trailer", "T")
			io.WriteString(w, strings.Repeat("x", 5000))
			w.Header().Set("T", "u")
		}))
		defer server.Close()
		transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			seen.Addf("dial %s", network)
			return new(net.Dialer).DialContext(ctx, network, address)
		}}
		defer transport.CloseIdleConnections()
		program := &http.Client{Transport: client.Transport(transport)}
		ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			GotConn:         func(i httptrace.GotConnInfo) { seen.Addf("reused %t", i.Reused) },
			Got1xxResponse:  func(code int, _ textproto.MIMEHeader) error { seen.Addf("hint %d", code); return nil },
			WroteRequest:    func(i httptrace.WroteRequestInfo) { seen.Addf("wrote %v", i.Err) },
			ConnectDone:     func(_, _ string, err error) { seen.Addf("connected %v", err) },
			Wait100Continue: func() { seen.Addf("wait") },
		})
		for _, path := range []string{"/", "/redirect", "/hints", "/abort", "/%zz", "http://[::1]:1/"} {
			seen.Addf("%s", path)
			at, err := url.Parse(path)
			if err != nil {
				at = &url.URL{Opaque: path}
			}
			base, _ := url.Parse(server.URL)
			r := (&http.Request{Method: "POST", URL: base.ResolveReference(at), Header: http.Header{}, Trailer: http.Header{"Late": {"v"}}, ContentLength: -1}).WithContext(ctx)
			r.Body, r.GetBody = io.NopCloser(strings.NewReader("body")), func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("body")), nil }
			answer, err := program.Do(r)
			if err != nil {
				seen.Addf("%s", strings.ReplaceAll(err.Error(), base.Host, "host"))
				continue
			}
			text, err := io.ReadAll(answer.Body)
			answer.Header.Del("Date")
			seen.Addf("%s %v %d %v %v %s %v", answer.Status, answer.Header, len(text), err, answer.Trailer, answer.Request.URL.Path, answer.Body.Close())
		}
	})
}

// posts sends requests whose contexts it cancels, and drops the responses. Each request and each response that the collector
// finds is counted.
func posts(t *testing.T, client *http.Client, url string, n int, found *atomic.Int32) {
	t.Helper()
	count := func(found *atomic.Int32) { found.Add(1) }
	for range n {
		ctx, cancel := context.WithCancel(context.Background())
		r, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(strings.Repeat("x", 10_000)))
		require.NoError(t, err)
		answer, err := client.Do(r)
		require.NoError(t, err)
		runtime.AddCleanup(r, count, found)
		runtime.AddCleanup(answer, count, found)
		cancel()
	}
}

// TestDropped: of requests whose responses are dropped nothing is left, neither while they
// are traced nor later.
func TestDropped(t *testing.T) {
	p := eventtest.Provider(t, "httpprobe")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Write(make([]byte, 100))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	client := &http.Client{Transport: NewClient(p).Transport(&http.Transport{})}
	const n = 200
	events := eventtest.Observe(t, p)
	var found atomic.Int32
	posts(t, client, server.URL, n, &found)
	require.GreaterOrEqual(t, events(), int64(n))
	require.Eventually(t, func() bool { runtime.GC(); return found.Load() == 2*n }, testenv.Patience, 10*time.Millisecond)
	runtime.KeepAlive(client)
}

// TestCanceledLate: a request is canceled by its pointer after other copies have gone, also if it was
// sent twice.
func TestCanceledLate(t *testing.T) {
	for name, body := range map[string]func(string) io.ReadCloser{
		"net/http": httpBody,
		"own":      func(text string) io.ReadCloser { return io.NopCloser(strings.NewReader(text)) },
	} {
		t.Run(name, func(t *testing.T) { testCanceledLate(t, body) })
	}
}

func testCanceledLate(t *testing.T, body func(string) io.ReadCloser) {
	p := eventtest.Provider(t, "httpprobe")
	var sent, canceled []*http.Request
	next := &keeping{sent: &sent, canceled: &canceled, body: body}
	through := NewClient(p).Transport(next)
	eventtest.Observe(t, p)
	r := httptest.NewRequest("GET", "/", nil)
	for range 2 {
		_, err := through.RoundTrip(r)
		require.NoError(t, err)
	}
	eventtest.LiveHeap() // which collects garbage
	through.(canceler).CancelRequest(r)
	require.Equal(t, sent[1:], canceled)
	require.NotSame(t, r, canceled[0])
	sent, canceled = nil, slices.Clip(canceled[:0])
	eventtest.LiveHeap()
	through.(canceler).CancelRequest(r)
	require.Len(t, canceled, 1, "it is left to the transport")
}

// keeping keeps the requests that it has sent.
type keeping struct {
	mu             sync.Mutex
	sent, canceled *[]*http.Request
	body           func(text string) io.ReadCloser
}

func (k *keeping) RoundTrip(r *http.Request) (*http.Response, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	*k.sent = append(*k.sent, r)
	return &http.Response{Body: k.body(fmt.Sprint(len(*k.sent)))}, nil
}

func (k *keeping) CancelRequest(r *http.Request) { *k.canceled = append(*k.canceled, r) }
