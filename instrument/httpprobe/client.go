package httpprobe

import (
	"errors"
	"io"
	"net/http"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/span"
)

// ClientProbes reports the requests that a program sends. [NewClient] makes it: the zero
// ClientProbes must not be used. Its methods, and the transports that they return, are safe for
// concurrent use. It has these probes:
//
//	fetch__start(id, parent, method, host, path)
//	fetch__end(id, parent, nanoseconds, error, host, status, bytes,
//		dns, connect, tls, first_byte, method)
//
// A fetch ends when the body of its response has been read or is closed, or when it fails. A body
// that is neither read to its end nor closed has no end, and nothing is kept for it. A body whose
// type is not net/http's own stays as it is, because the program could notice another type: the
// fetch then ends when the response arrives. status is 0 if there was no response, and bytes is the
// number of bytes that were read of its body. dns, connect and tls are the nanoseconds that these
// steps took for a new connection, and 0 if a step was not needed or a connection was reused.
// first_byte is the nanoseconds from the start to the beginning of the response. Each redirect is
// a fetch of its own.
//
// [span.WithTraceContext] adds fetch__context.
type ClientProbes struct {
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

// NewClient defines the probes of a client. If the provider has probes of these names with other
// arguments, its Load reports it. With a nil provider nothing is reported.
func NewClient(p *stapsdt.Provider, opts ...span.Option) *ClientProbes {
	return &ClientProbes{span.NewOperation[fetchStart, fetchEnd](p, "fetch", opts...)}
}

// Transport returns a RoundTripper that sends requests with next, or with
// http.DefaultTransport if it is nil, and reports them. While nothing traces them, it only
// calls next. It has the methods CloseIdleConnections and CancelRequest if next has them.
//
// An http.Client with a Timeout needs a timer and a dozen more allocations per request for
// each RoundTripper that is not an *http.Transport. To avoid them, set a deadline in the
// request's context instead.
func (c *ClientProbes) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	t := &transport{next: next, fetches: c.fetches}
	idle, idles := next.(closeIdler)
	cancel, cancels := next.(canceler)
	if cancels {
		t.sent = &copies{}
		cancel = cancelTransport{cancel, t.sent}
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

// cancelTransport cancels requests of which next may have copies.
type cancelTransport struct {
	canceler
	sent *copies
}

func (c cancelTransport) CancelRequest(r *http.Request) {
	if f := c.sent.find(r); f != nil {
		r = &f.mine
	}
	c.canceler.CancelRequest(r)
}

// copies are fetches that may still be canceled, by the program's requests. It keeps none of
// them alive: a request that next has dropped cannot be canceled.
type copies struct{ sync.Map }

func (c *copies) find(r *http.Request) *fetch {
	if f, found := c.Load(weak.Make(r)); found {
		return f.(weak.Pointer[fetch]).Value()
	}
	return nil
}

func (c *copies) add(f *fetch) {
	k := f.entry()
	c.Store(k.request, k.fetch)
	runtime.AddCleanup(f, c.forget, k)
}

// copyEntry is a request of the program and its fetch.
type copyEntry struct {
	request weak.Pointer[http.Request]
	fetch   weak.Pointer[fetch]
}

func (f *fetch) entry() copyEntry { return copyEntry{weak.Make(f.theirs), weak.Make(f)} }

func (c *copies) forget(k copyEntry) { c.CompareAndDelete(k.request, k.fetch) }

type transport struct {
	next    http.RoundTripper
	fetches *span.Operation[fetchStart, fetchEnd]
	sent    *copies // or nil if next cannot cancel requests
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
	if r == nil || r.URL == nil { // which next rejects
		return t.next.RoundTrip(r)
	}
	ctx, s := t.fetches.Start(r.Context(), fetchStart{r.Method, r.URL.Host, r.URL.Path})
	if s == nil {
		return t.next.RoundTrip(r)
	}
	f := &fetch{span: s, method: r.Method, host: r.URL.Host, began: clock.Now(), sent: t.sent}
	f.begin(r, f.tracing(ctx))
	err := errPanicked
	defer func() {
		if err != nil {
			f.end(err)
		}
	}()
	if t.sent != nil {
		t.sent.add(f)
	}
	answer, failure := t.next.RoundTrip(&f.mine)
	if err = failure; err == nil && answer == nil { // which http.Client rejects
		err = errNoResponse
	}
	if err != nil {
		return answer, failure
	}
	if answer.Request == &f.mine {
		answer.Request = r
	}
	f.status.Store(int32(answer.StatusCode))
	if body, wrapped := f.body(answer.Body); wrapped {
		answer.Body = body
	}
	return answer, nil
}

// fetch is a request that is reported. The transport may call its hooks from several
// goroutines, and after it has returned.
type fetch struct {
	request
	span         *span.Span[fetchEnd]
	method, host string
	began        time.Duration
	dns, connect step
	tls          step
	firstByte    atomic.Int64
	reused       atomic.Bool
	status       atomic.Int32
	ended        atomic.Bool
	bytes        atomic.Int64
	sent         *copies // or nil
}

// end reports the end of the fetch, once.
func (f *fetch) end(err error) {
	f.ended.Store(true)
	if f.sent != nil {
		f.sent.forget(f.entry())
	}
	f.report(err)
}

// report reports the end of a fetch whose request may still be canceled.
func (f *fetch) report(err error) {
	f.span.EndFunc(func() fetchEnd {
		e := fetchEnd{
			Host: f.host, Status: f.status.Load(), Bytes: f.bytes.Load(),
			FirstByte: time.Duration(f.firstByte.Load()), Method: f.method,
		}
		if !f.reused.Load() { // else another connection was ready before the new one
			e.DNS, e.Connect, e.TLS = f.dns.elapsed(), f.connect.elapsed(), f.tls.elapsed()
		}
		return e
	}, err)
}

// body returns the body that ends the fetch. If there is nothing to read, or the program could
// notice that the body has another type, the fetch ends at once: wrapped is then false, and nothing
// may be written to the response, which a transport may return more than once, even to several
// goroutines.
func (f *fetch) body(b io.ReadCloser) (mine io.ReadCloser, wrapped bool) {
	b = unended(b)
	switch {
	case b == http.NoBody || b == nil:
		f.end(nil)
	case ofHTTP(b):
		return &body{b, f}, true
	default:
		f.report(nil)
	}
	return nil, false
}

// ofHTTP reports whether a body can only be read and closed, and has a type that no package except
// net/http can name. The program may assert the types and methods of other bodies, and net/http
// treats some of them, such as io.NopCloser's, in a special way when it sends them.
func ofHTTP(b io.ReadCloser) bool {
	t := reflect.TypeOf(b)
	if t.NumMethod() != 2 {
		return false
	}
	if _, ours := b.(*body); ours {
		return true
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.PkgPath() {
	case "net/http", "net/http/internal/http2", "golang.org/x/net/http2":
		return t.Name() > "Z~" // otherwise it is exported
	}
	return false
}

// unended returns a body without the bodies around it whose fetches have ended. A response
// that the transport has returned before has such a body.
func unended(b io.ReadCloser) io.ReadCloser {
	for {
		ours, ok := b.(*body)
		if !ok || !ours.fetch.ended.Load() {
			return b
		}
		b = ours.ReadCloser
	}
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
