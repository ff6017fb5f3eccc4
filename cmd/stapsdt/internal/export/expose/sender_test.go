//go:build linux

package expose

import (
	"bufio"
	"compress/gzip"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coltrace "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// tracesClient returns a client that sends spans to an endpoint.
func tracesClient(t *testing.T, endpoint string) *client {
	t.Helper()
	u, err := parseEndpoint(endpoint)
	require.NoError(t, err)
	c, err := newClient(u, "traces")
	require.NoError(t, err)
	return c
}

// growing is a source whose counter grows each time.
type growing struct {
	mu sync.Mutex
	n  float64
}

func (g *growing) Collect() ([]Family, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n++
	return []Family{{Name: "n_total", Series: []Series{{Value: g.n, Created: start}}}}, nil
}

// TestCollectorGone: what comes while a collector is gone waits, as much as there is room for;
// nothing blocks; and when it is back, it gets what has waited, and the right counters.
func TestCollectorGone(t *testing.T) {
	c := collect(t, reserve(t))
	o, m := startOTLP(t, "http://"+c.addr, &growing{}, silent)
	until(t, "metrics come", func() bool { return c.metric("n_total") != nil })
	require.NoError(t, c.server.Close())
	failed := func(signal string) bool {
		return own(t, m, "stapsdt_export_otlp_failures_total", `signal="`+signal+`"`) > 0
	}
	const more = 100
	for i := range maxBatch {
		o.Span(span("early", uint64(i+1)))
	}
	until(t, "the first batch has failed", func() bool { return failed("traces") && failed("metrics") })
	for i := range maxQueued + more {
		o.Span(span(fmt.Sprint(i), uint64(i+1)))
	}
	assert.Equal(t, float64(more), own(t, m, "stapsdt_export_otlp_spans_total", `result="dropped"`), "dropped")
	assert.Equal(t, float64(maxQueued), own(t, m, "stapsdt_export_otlp_queued_spans", ""), "waiting")
	before := c.metric("n_total").GetSum().DataPoints[0].GetAsDouble()
	back := collect(t, c.addr)
	until(t, "all come", func() bool { return len(back.names()) == maxBatch+maxQueued })
	names := back.names()
	slices.Sort(names)
	for i := range maxQueued {
		_, found := slices.BinarySearch(names, fmt.Sprint(i))
		require.True(t, found, "span %d has not come", i)
	}
	until(t, "metrics come again", func() bool { return back.metric("n_total") != nil })
	point := back.metric("n_total").GetSum().DataPoints[0]
	assert.Greater(t, point.GetAsDouble(), before)
	assert.Equal(t, uint64(start.UnixNano()), point.StartTimeUnixNano)
	assert.NoError(t, shutdown(t, o))
	assert.Equal(t, float64(maxBatch+maxQueued), own(t, m, "stapsdt_export_otlp_spans_total", `result="sent"`), "sent")
}

// TestCollectorRefuses: a collector that is busy is asked again, and what it refuses for good is
// counted.
func TestCollectorRefuses(t *testing.T) {
	c := collect(t, "127.0.0.1:0")
	var mu sync.Mutex
	var log strings.Builder
	o, m := startOTLP(t, "http://"+c.addr, fixed{}, func(text string) {
		mu.Lock()
		defer mu.Unlock()
		log.WriteString(text)
	})
	asked := c.answers(http.StatusServiceUnavailable)
	o.Span(span("waits", 1))
	until(t, "it is asked again", func() bool { return c.answers(http.StatusServiceUnavailable) >= asked+2 })
	c.answers(0)
	until(t, "it comes", func() bool { return len(c.names()) == 1 })
	c.answers(http.StatusBadRequest)
	o.Span(span("refused", 2))
	until(t, "it is counted", func() bool { return own(t, m, "stapsdt_export_otlp_spans_total", `result="refused"`) == 1 })
	c.answers(0)
	o.Span(span("later", 3))
	assert.NoError(t, shutdown(t, o))
	assert.Equal(t, []string{"waits", "later"}, c.names())
	assert.Contains(t, log.String(), c.addr+"/v1/traces: 400 Bad Request")
	assert.GreaterOrEqual(t, own(t, m, "stapsdt_export_otlp_failures_total", `signal="traces"`), float64(3), "each attempt is counted")
}

// TestCollectorTakesLess: a collector that takes only smaller messages gets all that fits into one, by few attempts, and the rest
// is counted.
func TestCollectorTakesLess(t *testing.T) {
	c := collect(t, "127.0.0.1:0")
	c.most = 2000
	var mu sync.Mutex
	var log strings.Builder
	many := Family{Name: "many_total", Labels: []string{"n"}}
	for i := range 100 {
		many.Series = append(many.Series, Series{Values: []string{fmt.Sprint(i)}, Value: 1, Created: start})
	}
	source := fixed{many}
	for i := range 20 {
		source = append(source, Family{Name: fmt.Sprintf("few%d_total", i), Series: []Series{{Value: 1, Created: start}}})
	}
	o, m := startOTLP(t, "http://"+c.addr, source, func(text string) {
		mu.Lock()
		defer mu.Unlock()
		log.WriteString(text + "\n")
	})
	const spans = 1000
	for i := range spans {
		one := span("s", uint64(i+1))
		if i == spans/3 {
			one.Name, one.Error = "large", strings.Repeat("x", c.most)
		}
		o.Span(one)
	}
	require.ErrorIs(t, shutdown(t, o), errSize, "many_total")
	assert.LessOrEqual(t, c.large, 12, "the size is remembered")
	assert.Len(t, c.names(), spans-1)
	assert.NotContains(t, c.names(), "large")
	assert.Equal(t, float64(1), own(t, m, "stapsdt_export_otlp_spans_total", `result="refused"`))
	assert.Equal(t, float64(spans-1), own(t, m, "stapsdt_export_otlp_spans_total", `result="sent"`))
	sent := map[string]bool{}
	for _, r := range c.resources {
		for _, one := range r.ScopeMetrics[0].Metrics {
			sent[one.Name] = true
		}
	}
	for i := range 20 {
		assert.True(t, sent[fmt.Sprintf("few%d_total", i)], i)
	}
	assert.False(t, sent["many_total"])
	assert.Contains(t, log.String(), "OTLP: the metric many_total is left out, because it is too large for the collector\n")
}

// TestCollectorRejects: of a batch, only what the collector says to have rejected is refused, and a warning without any is no failure.
func TestCollectorRejects(t *testing.T) {
	const spans = 198
	for lost, failures := range map[int64]float64{0: 0, 1: 1, spans + 1: 1} {
		c := collect(t, "127.0.0.1:0")
		c.partial = &coltrace.ExportTracePartialSuccess{RejectedSpans: lost, ErrorMessage: "too old\n(7 spans rejected)"}
		o, m := startOTLP(t, "http://"+c.addr, fixed{}, silent)
		for i := range spans {
			o.Span(span("s", uint64(i+1)))
		}
		assert.NoError(t, shutdown(t, o))
		refused := float64(min(lost, spans))
		assert.Equal(t, refused, own(t, m, "stapsdt_export_otlp_spans_total", `result="refused"`))
		assert.Equal(t, spans-refused, own(t, m, "stapsdt_export_otlp_spans_total", `result="sent"`))
		assert.Equal(t, failures, own(t, m, "stapsdt_export_otlp_failures_total", `signal="traces"`))
	}
}

// TestRetryAfter: a collector says how long to wait, as seconds or as a date, but not forever.
func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, "-1": 0, "x": 0, "99999999": maxRetryAfter, "99999999999999999999": 0,
		start.Add(time.Minute).UTC().Format(http.TimeFormat): time.Minute, start.Add(-time.Minute).UTC().Format(http.TimeFormat): 0,
	} {
		assert.Equal(t, want, retryAfter(header, start), header)
	}
}

// TestBackoff: after temporary failures the delay doubles up to a limit, and is at least what the collector asks for. After others, nothing
// is sent again.
func TestBackoff(t *testing.T) {
	b := backoff{first: firstDelay}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		pause, again := b.next(fmt.Errorf("wrapped: %w", &temporaryError{error: io.EOF}))
		assert.True(t, again)
		assert.GreaterOrEqual(t, pause, want*time.Second/2)
		assert.Less(t, pause, want*time.Second*3/2)
	}
	pause, _ := b.next(&temporaryError{io.EOF, time.Hour})
	assert.Equal(t, time.Hour, pause)
	for _, err := range []error{nil, io.EOF} {
		_, again := b.next(err)
		assert.False(t, again)
	}
	pause, _ = b.next(&temporaryError{error: io.EOF})
	assert.Less(t, pause, 2*firstDelay, "it begins again")
}

// TestStatuses: a message is sent again after the answers that OTLP lists, as late as they ask for, and after no others.
func TestStatuses(t *testing.T) {
	status := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	c := tracesClient(t, server.URL)
	for _, status = range []int{200, 202, 400, 401, 404, 413, 429, 500, 501, 502, 503, 504} {
		err := c.post(t.Context(), &coltrace.ExportTraceServiceRequest{}, &coltrace.ExportTraceServiceResponse{})
		assert.Equal(t, status < 300, err == nil, status)
		var temporary *temporaryError
		if errors.As(err, &temporary) {
			assert.Equal(t, 5*time.Second, temporary.after, status)
		}
		assert.Equal(t, slices.Contains([]int{429, 502, 503, 504}, status), temporary != nil, status)
	}
}

// TestEndlessAnswer: of an answer that does not end, a few megabytes are read, and what it was about counts as sent.
func TestEndlessAnswer(t *testing.T) {
	const limit = 128 << 20 // with what is on its way
	taken := make(chan int, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Empty(t, r.Header.Get("Accept-Encoding"), "an answer that is compressed could be larger than it looks")
		n, chunk := 0, make([]byte, 1<<20)
		for ; n < 1<<30; n += len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				break
			}
		}
		taken <- n
	}))
	t.Cleanup(server.Close)
	err := tracesClient(t, server.URL).post(t.Context(), &coltrace.ExportTraceServiceRequest{}, &coltrace.ExportTraceServiceResponse{})
	assert.NoError(t, err) // the message was taken
	assert.LessOrEqual(t, <-taken, limit)
}

// TestClientSettings: the environment has headers, certificates, a timeout and compression for all signals, or for one.
func TestClientSettings(t *testing.T) {
	var got *http.Request
	var body []byte
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r
		if zip, err := gzip.NewReader(r.Body); assert.NoError(t, err) {
			body, _ = io.ReadAll(zip)
		}
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	dir := t.TempDir()
	certificate(t, dir)
	for name, value := range map[string]string{
		"CERTIFICATE": dir + "/cert.pem", "CLIENT_CERTIFICATE": dir + "/cert.pem", "CLIENT_KEY": dir + "/key.pem",
		"HEADERS": "x-all=1", "TRACES_HEADERS": " x-token = a%2Cb=c ,x-other=2", "COMPRESSION": "gzip", "TIMEOUT": "1500",
	} {
		t.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
	}
	endpoint := strings.Replace(server.URL, "//", "//user:password@", 1) + "/base/"
	c := tracesClient(t, endpoint)
	assert.Equal(t, 1500*time.Millisecond, c.http.Timeout)
	sent := &coltrace.ExportTraceServiceRequest{ResourceSpans: convertSpans([]Span{span("a", 1)})}
	require.NoError(t, c.post(t.Context(), sent, &coltrace.ExportTraceServiceResponse{}))
	assert.Equal(t, "/base/v1/traces", got.URL.Path)
	assert.Len(t, got.TLS.PeerCertificates, 1)
	_, password, _ := got.BasicAuth()
	assert.Equal(t, "password", password)
	for name, want := range map[string]string{"X-Token": "a,b=c", "X-Other": "2", "X-All": "", "Content-Type": protobufType} {
		assert.Equal(t, want, got.Header.Get(name), name)
	}
	want, err := proto.Marshal(sent)
	require.NoError(t, err)
	assert.Equal(t, want, body)
	server.Close()
	assert.NotContains(t, c.post(t.Context(), sent, sent).Error(), "password")
	u, err := parseEndpoint(endpoint)
	require.NoError(t, err)
	for name, value := range map[string]string{"CERTIFICATE": dir + "/key.pem", "CLIENT_KEY": dir + "/missing.pem", "TIMEOUT": "10s", "HEADERS": "x=%"} {
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_"+name, value)
		_, err := newClient(u, "traces")
		assert.Error(t, err, name)
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_"+name, "")
	}
}

// TestGRPCPort: a server of gRPC is named, whether it sends its settings or closes the connection.
func TestGRPCPort(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil { // what is unread would reset the connection
				io.Copy(io.Discard, r.Body)
			}
			io.WriteString(conn, "\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64\x00\x04\x00\x10\x00\x00\x00\x06\x00\x00\x40\x00")
			conn.Close()
		}
	}()
	const said = " is a gRPC port; use the port of OTLP over HTTP, usually 4318"
	u, err := parseEndpoint("http://" + listener.Addr().String())
	require.NoError(t, err)
	c, err := newClient(u, "metrics")
	require.NoError(t, err)
	c.http.Timeout = testenv.Patience
	sent := &coltrace.ExportTraceServiceRequest{}
	assert.EqualError(t, c.post(t.Context(), sent, sent), listener.Addr().String()+said)
	for _, err := range []error{io.EOF, unix.ECONNRESET, &net.OpError{Op: "read", Err: unix.ECONNRESET}, errors.New("readLoopPeekFailLocked")} {
		err = &url.Error{Op: "Post", Err: err}
		told := explained(err, &url.URL{Host: "h:4317"})
		assert.ErrorIs(t, told, err)
		assert.ErrorContains(t, told, "; 4317 is the gRPC port; use the port of OTLP over HTTP, usually 4318")
		assert.Equal(t, err, explained(err, &url.URL{Host: "h:4318"}))
	}
	for _, err := range []error{&net.OpError{Op: "dial", Err: unix.ECONNREFUSED}, os.ErrDeadlineExceeded, &net.DNSError{IsTimeout: true}} {
		err = &url.Error{Op: "Post", Err: err}
		assert.Equal(t, err, explained(err, &url.URL{Host: "h:4317"}))
	}
}

// TestShutdownWithoutCollector: a collector that is gone does not hold up the end.
func TestShutdownWithoutCollector(t *testing.T) {
	o, m := startOTLP(t, "http://"+reserve(t), fixed{}, silent)
	for i := range 2 * maxBatch {
		o.Span(span("lost", uint64(i+1)))
	}
	assert.Error(t, shutdown(t, o), "metrics that were not sent are no error")
	assert.LessOrEqual(t, own(t, m, "stapsdt_export_otlp_failures_total", `signal="traces"`), float64(2), "once before the end, and once then")
	assert.Equal(t, float64(2*maxBatch), own(t, m, "stapsdt_export_otlp_spans_total", `result="dropped"`), "dropped")
}
