package httpprobe

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/span"
)

// Client reports the requests that a program sends:
//
//	fetch__start(id, parent, method, host, path)
//	fetch__end(id, parent, nanoseconds, error, host, status, bytes, dns, connect, tls, first_byte, method)
//
// A fetch ends when the body of its response has been read or is closed, or when it fails. A
// body that is neither read to its end nor closed has no end. status is 0 if there was no
// response, and bytes is the number of bytes that were read of its body. dns, connect and tls
// are the nanoseconds that these steps took for a new connection, and 0 if it was not needed
// or a connection was reused. first_byte is how long after the start the response began. Each
// redirect is a fetch of its own.
//
// [span.WithTraceContext] adds fetch__context.
type Client struct {
	fetches *span.Operation[fetchStart, fetchEnd]
}

type fetchStart struct{ Method, Host, Path string }

type fetchEnd struct {
	Host      string
	Status    int32
	Bytes     int64
	DNS       time.Duration
	Connect   time.Duration
	TLS       time.Duration
	FirstByte time.Duration
	Method    string
}

// NewClient defines the probes of a client. If the provider already has others of these
// names, its Load reports it. With a nil provider nothing is reported.
func NewClient(p *stapsdt.Provider, opts ...span.Option) *Client {
	return &Client{span.New[fetchStart, fetchEnd](p, "fetch", opts...)}
}

// Transport returns a RoundTripper that sends requests with next, or with
// http.DefaultTransport if it is nil, and reports them. While nothing traces them, it only
// calls next. It has the methods CloseIdleConnections and CancelRequest if next has them.
//
// An http.Client with a Timeout needs a timer and a dozen more allocations per request for
// each RoundTripper that is not an *http.Transport. To avoid them, set a deadline in the
// request's context instead.
func (c *Client) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	t := &transport{next: next, fetches: c.fetches}
	idle, idles := next.(closeIdler)
	cancel, cancels := next.(canceler)
	if cancels {
		t.sent = &sync.Map{}
		cancel = canceling{cancel, t.sent}
	}
	switch {
	case idles && cancels:
		return struct {
			*transport
			closeIdler
			canceler
		}{t, idle, cancel}
	case idles:
		return struct {
			*transport
			closeIdler
		}{t, idle}
	case cancels:
		return struct {
			*transport
			canceler
		}{t, cancel}
	}
	return t
}

// The optional methods of a RoundTripper, which http.Client calls.
type (
	closeIdler interface{ CloseIdleConnections() }
	canceler   interface{ CancelRequest(*http.Request) }
)

// canceling cancels requests of which next may have copies.
type canceling struct {
	canceler
	sent *sync.Map
}

func (c canceling) CancelRequest(r *http.Request) {
	if mine, sent := c.sent.Load(r); sent {
		r = mine.(*http.Request)
	}
	c.canceler.CancelRequest(r)
}

type transport struct {
	next    http.RoundTripper
	fetches *span.Operation[fetchStart, fetchEnd]
	// sent are the copies of requests that are reported and have not ended. It is nil if next
	// cannot cancel them.
	sent *sync.Map
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.fetches.Enabled() {
		return t.fetch(r)
	}
	return t.next.RoundTrip(r)
}

var errNoResponse = errors.New("no response")

// fetch sends and reports a request.
func (t *transport) fetch(r *http.Request) (*http.Response, error) {
	if r.URL == nil { // which next rejects
		return t.next.RoundTrip(r)
	}
	ctx, s := t.fetches.Start(r.Context(), fetchStart{r.Method, r.URL.Host, r.URL.Path})
	if s == nil {
		return t.next.RoundTrip(r)
	}
	f := &fetch{span: s, method: r.Method, host: r.URL.Host, began: clock.Now()}
	err := errPanicked
	defer func() {
		if err != nil {
			f.end(err)
		}
	}()
	mine := r.WithContext(httptrace.WithClientTrace(ctx, f.steps()))
	if t.sent != nil {
		t.sent.Store(r, mine)
		f.forget = func() { t.sent.CompareAndDelete(r, mine) }
	}
	answer, failure := t.next.RoundTrip(mine)
	if err = failure; err == nil && answer == nil { // which http.Client rejects
		err = errNoResponse
	}
	if err != nil {
		return answer, failure
	}
	if answer.Request == mine {
		answer.Request = r
	}
	f.status.Store(int32(answer.StatusCode))
	answer.Body = f.body(answer.Body)
	return answer, nil
}

// fetch is a request that is reported. The transport may call its hooks from several
// goroutines, and after it has returned.
type fetch struct {
	span         *span.Span[fetchEnd]
	method, host string
	began        time.Duration
	dns, connect step
	tls          step
	firstByte    atomic.Int64
	reused       atomic.Bool
	status       atomic.Int32
	bytes        atomic.Int64
	forget       func() // or nil
}

// step is a part of a fetch: when it first began, and when it was first done.
type step struct{ from, to atomic.Int64 }

func (s *step) begin() { s.from.CompareAndSwap(0, int64(clock.Now())) }

func (s *step) done(err error) {
	if err == nil {
		s.to.CompareAndSwap(0, int64(clock.Now()))
	}
}

func (s *step) elapsed() time.Duration {
	if from, to := s.from.Load(), s.to.Load(); from != 0 && to > from {
		return time.Duration(to - from)
	}
	return 0
}

func (f *fetch) steps() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSStart:             func(httptrace.DNSStartInfo) { f.dns.begin() },
		DNSDone:              func(i httptrace.DNSDoneInfo) { f.dns.done(i.Err) },
		ConnectStart:         func(_, _ string) { f.connect.begin() },
		ConnectDone:          func(_, _ string, err error) { f.connect.done(err) },
		TLSHandshakeStart:    f.tls.begin,
		TLSHandshakeDone:     func(_ tls.ConnectionState, err error) { f.tls.done(err) },
		GotConn:              func(i httptrace.GotConnInfo) { f.reused.Store(i.Reused) },
		GotFirstResponseByte: func() { f.firstByte.CompareAndSwap(0, int64(clock.Now()-f.began)) },
	}
}

// end reports the end of the fetch, once.
func (f *fetch) end(err error) {
	if f.forget != nil {
		f.forget()
	}
	f.span.EndFunc(func() fetchEnd {
		e := fetchEnd{Host: f.host, Status: f.status.Load(), Bytes: f.bytes.Load(), FirstByte: time.Duration(f.firstByte.Load()), Method: f.method}
		if !f.reused.Load() { // else a connection was being made, but another came first
			e.DNS, e.Connect, e.TLS = f.dns.elapsed(), f.connect.elapsed(), f.tls.elapsed()
		}
		return e
	}, err)
}

// body returns the body that ends the fetch, with the optional methods that net/http's
// bodies have. The fetch has ended if there is nothing to read, or if the body is also
// written to, after a switch of protocols.
func (f *fetch) body(b io.ReadCloser) io.ReadCloser {
	if _, writes := b.(io.Writer); writes || b == http.NoBody || b == nil {
		f.end(nil)
		return b
	}
	mine := &body{b, f}
	if to, ok := b.(io.WriterTo); ok {
		return struct {
			*body
			writerTo
		}{mine, writerTo{mine, to}}
	}
	return mine
}

// body is the body of a response.
type body struct {
	io.ReadCloser
	fetch *fetch
}

func (b *body) Read(data []byte) (int, error) {
	n, err := b.ReadCloser.Read(data)
	b.fetch.bytes.Add(int64(n))
	switch err {
	case nil:
	case io.EOF:
		b.fetch.end(nil)
	default:
		b.fetch.end(err)
	}
	return n, err
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.fetch.end(err)
	return err
}

// writerTo is the optional method of a body.
type writerTo struct {
	body *body
	to   io.WriterTo
}

func (w writerTo) WriteTo(to io.Writer) (int64, error) {
	n, err := w.to.WriteTo(to)
	w.body.fetch.bytes.Add(n)
	w.body.fetch.end(err)
	return n, err
}
