//go:build linux

package expose

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
)

const (
	protobufType = "application/x-protobuf"
	// maxAnswer limits the size of a collector's answer, as OTLP recommends.
	maxAnswer = 4 << 20
	// maxReason limits the part of an answer that an error contains.
	maxReason      = 256
	defaultTimeout = 10 * time.Second
	firstDelay     = time.Second // the delay before the second attempt
	maxDelay       = 30 * time.Second
	// maxRetryAfter limits the delay that a collector can request.
	maxRetryAfter = 10 * time.Minute
)

// client sends the messages of a signal, "metrics" or "traces", by OTLP over HTTP.
type client struct {
	url      string
	header   http.Header
	gzip     bool
	http     http.Client
	failures prometheus.Counter
	complain func(string)
	// taken is the size of the largest message that the collector accepted, and refused the size
	// of the smallest message that it rejected as too large, or 0, both in bytes without
	// compression.
	taken, refused int
}

func newClient(endpoint *url.URL, signal string) (*client, error) {
	of, err := endpointOf(signal, endpoint)
	if err != nil {
		return nil, err
	}
	zips := strings.EqualFold(setting(signal, "COMPRESSION"), "gzip")
	c := &client{url: of.String(), header: http.Header{}, gzip: zips}
	for pair := range strings.SplitSeq(setting(signal, "HEADERS"), ",") {
		name, value, _ := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("the value of the header %s: %w", name, err)
		}
		if name = strings.TrimSpace(name); name != "" {
			c.header.Set(name, value)
		}
	}
	c.header.Set("Content-Type", protobufType)
	if c.gzip {
		c.header.Set("Content-Encoding", "gzip")
	}
	c.http.Timeout = defaultTimeout
	if text := setting(signal, "TIMEOUT"); text != "" {
		milliseconds, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT takes milliseconds, not %q", text)
		}
		c.http.Timeout = time.Duration(milliseconds) * time.Millisecond
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // answers are short
	c.http.Transport = transport
	// a redirected POST would become a GET
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}
	transport.TLSClientConfig, err = certificates(signal)
	return c, err
}

func certificates(signal string) (*tls.Config, error) {
	config := &tls.Config{}
	if path := setting(signal, "CERTIFICATE"); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate", path)
		}
	}
	if path := setting(signal, "CLIENT_CERTIFICATE"); path != "" {
		pair, err := tls.LoadX509KeyPair(path, setting(signal, "CLIENT_KEY"))
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// temporaryError is an error after which a message is sent again.
type temporaryError struct {
	error
	after time.Duration // the delay that the collector requests, or 0
}

func (e *temporaryError) Unwrap() error { return e.error }

// errSize means that a collector accepts only smaller messages.
var errSize = errors.New("the message is too large")

// fit returns the first message of n items, n/2 items and so on that the collector will probably
// take, or else the message of one item, and its number of items.
func (c *client) fit(n int, message func(n int) proto.Message) (int, proto.Message) {
	for {
		m := message(n)
		size := proto.Size(m)
		if n == 1 || c.refused == 0 || size <= c.taken || size < (c.taken+c.refused)/2 {
			return n, m
		}
		n /= 2
	}
}

// learn remembers whether the collector accepted a message, and forgets earlier results
// that contradict this one.
func (c *client) learn(size int, took bool) {
	switch {
	case took:
		if c.taken = max(c.taken, size); c.taken >= c.refused {
			c.refused = 0
		}
	case c.refused == 0 || size < c.refused:
		if c.refused = size; c.taken >= c.refused {
			c.taken = 0
		}
	}
}

// send sends a message once, and reads the answer. It counts and reports a failure, unless ctx is
// done.
func (c *client) send(ctx context.Context, message, answer proto.Message) error {
	err := c.post(ctx, message, answer)
	if err == nil || errors.Is(err, errSize) {
		c.learn(proto.Size(message), err == nil)
	}
	if err != nil && ctx.Err() == nil {
		c.failures.Inc()
		c.complain("OTLP: " + err.Error())
	}
	return err
}

// partly reports that a collector refused a part of a message, or warned about it.
func (c *client) partly(refused int64, what, message string) {
	if refused > 0 {
		c.failures.Inc()
	}
	if refused > 0 || message != "" {
		c.complain(fmt.Sprintf("OTLP: the collector refused %d %s: %.*q", refused, what, maxReason, message))
	}
}

func (c *client) post(ctx context.Context, message, answer proto.Message) error {
	body, err := proto.Marshal(message)
	if err != nil {
		return err
	}
	if c.gzip {
		var zipped bytes.Buffer
		w := gzip.NewWriter(&zipped)
		_, _ = w.Write(body) // a buffer accepts everything
		_ = w.Close()
		body = zipped.Bytes()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header = c.header.Clone()
	response, err := c.http.Do(r)
	if err != nil {
		return &temporaryError{error: explained(err, r.URL)}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return &temporaryError{error: fmt.Errorf("%s: %w", r.URL.Redacted(), err)}
	}
	if response.StatusCode/100 != 2 {
		err := fmt.Errorf("%s: %s: %.*q", r.URL.Redacted(), response.Status, maxReason, text)
		if slices.Contains(
			[]int{
				http.StatusTooManyRequests,
				http.StatusBadGateway,
				http.StatusServiceUnavailable,
				http.StatusGatewayTimeout,
			},
			response.StatusCode,
		) {
			return &temporaryError{err, retryAfter(response.Header.Get("Retry-After"), time.Now())}
		}
		if response.StatusCode == http.StatusRequestEntityTooLarge {
			return fmt.Errorf("%w (%d bytes): %w", errSize, len(body), err)
		}
		return err
	}
	if response.Header.Get("Content-Type") != protobufType {
		return nil
	}
	if err := proto.Unmarshal(text, answer); err != nil || len(text) > maxAnswer {
		c.complain(fmt.Sprintf("OTLP: %s accepted a message, but its answer is not valid", r.URL.Redacted()))
		proto.Reset(answer)
	}
	return nil
}

// explained returns the error of a request, with a hint if it was sent to a gRPC port. A gRPC
// server sends an HTTP/2 frame, which begins with its size, before or after the request, or closes
// the connection.
func explained(err error, u *url.URL) error {
	var of *net.OpError
	var timed interface{ Timeout() bool }
	frame := strings.Contains(err.Error(), `malformed HTTP response "\x00\x00`)
	connected := !errors.As(err, &of) || of.Op != "dial"
	late := errors.As(err, &timed) && timed.Timeout()
	switch {
	case frame:
		return fmt.Errorf("%s is a gRPC port; use the port of OTLP over HTTP, usually 4318", u.Host)
	case connected && !late && u.Port() == "4317":
		return fmt.Errorf("%w; 4317 is the gRPC port; use the port of OTLP over HTTP, usually 4318", err)
	}
	return err
}

// retryAfter returns the delay in a header, which has seconds or a date.
func retryAfter(header string, now time.Time) time.Duration {
	after := time.Duration(0)
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		after = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(header); err == nil {
		after = date.Sub(now)
	}
	return min(max(after, 0), maxRetryAfter)
}

func isTemporary(err error) bool {
	var temporary *temporaryError
	return errors.As(err, &temporary)
}

// backoff is the time between attempts to send. It doubles with each failure.
type backoff struct {
	first, delay time.Duration
}

// next returns the delay until the next attempt, according to the error of the last one. again
// reports whether there should be another attempt.
func (b *backoff) next(err error) (pause time.Duration, again bool) {
	var temporary *temporaryError
	if !errors.As(err, &temporary) {
		b.delay = 0
		return 0, false
	}
	b.delay = min(max(2*b.delay, b.first), maxDelay)
	return max(b.delay/2+rand.N(b.delay), temporary.after), true
}
