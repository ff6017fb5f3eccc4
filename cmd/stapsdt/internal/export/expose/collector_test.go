//go:build linux

package expose

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	colmetrics "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// collector receives OTLP, as a collector does.
type collector struct {
	addr   string
	server *http.Server

	mu      sync.Mutex
	status  int                                 // that it answers, or 0
	most    int                                 // bytes that it takes, or 0
	large   int                                 // how many messages with spans were larger
	asked   int                                 // how often for spans
	partial *coltrace.ExportTracePartialSuccess // of the answer, or nil
	header  http.Header
	metrics []*metrics.ResourceMetrics // the last that were sent
	spans   []*trace.ResourceSpans     // all that were sent
	// resources are all metrics that were sent.
	resources []*metrics.ResourceMetrics
}

// reserve returns an address at which nothing listens, and no other process can, until the test ends: a socket that does not listen
// is bound to it. This process can collect there.
func reserve(t *testing.T) (addr string) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	bound, err := unix.Getsockname(fd)
	require.NoError(t, err)
	return fmt.Sprintf("127.0.0.1:%d", bound.(*unix.SockaddrInet4).Port)
}

// collect starts a collector at an address, which may have the port 0. It runs until the test
// ends.
func collect(t *testing.T, addr string) *collector {
	t.Helper()
	listener, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	c := &collector{addr: listener.Addr().String()}
	c.server = &http.Server{Handler: c}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = c.server.Serve(listener) }()
	t.Cleanup(func() { c.server.Close(); <-ended })
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil && r.Header.Get("Content-Encoding") == "gzip" {
		var unzipped *gzip.Reader
		if unzipped, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, err = io.ReadAll(unzipped)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.URL.Path == "/v1/traces" {
		c.asked++
	}
	c.header = r.Header
	if c.status != 0 {
		http.Error(w, "not now", c.status)
		return
	}
	if c.most > 0 && len(body) > c.most {
		if r.URL.Path == "/v1/traces" {
			c.large++
		}
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	}
	if err == nil {
		err = c.receive(r.URL.Path, body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if c.partial != nil && r.URL.Path == "/v1/traces" {
		answer, _ := proto.Marshal(&coltrace.ExportTraceServiceResponse{PartialSuccess: c.partial})
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(answer)
	}
}

func (c *collector) receive(path string, body []byte) error {
	switch path {
	case "/v1/metrics":
		var request colmetrics.ExportMetricsServiceRequest
		if err := proto.Unmarshal(body, &request); err != nil {
			return err
		}
		c.metrics = request.ResourceMetrics
		c.resources = append(c.resources, request.ResourceMetrics...)
	case "/v1/traces":
		var request coltrace.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &request); err != nil {
			return err
		}
		c.spans = append(c.spans, request.ResourceSpans...)
	default:
		return fmt.Errorf("nothing is at %s", path)
	}
	return nil
}

// answers sets the status of all answers, and returns how often it has been asked for spans before.
func (c *collector) answers(status int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = status
	return c.asked
}

// names returns those of all spans that have come.
func (c *collector) names() (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.spans {
		for _, s := range r.ScopeSpans {
			for _, span := range s.Spans {
				names = append(names, span.Name)
			}
		}
	}
	return names
}

// metric returns what has come last of a metric.
func (c *collector) metric(name string) *metrics.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.metrics {
		for _, s := range r.ScopeMetrics {
			for _, m := range s.Metrics {
				if m.Name == name {
					return m
				}
			}
		}
	}
	return nil
}

// attributes returns attributes as texts.
func attributes(all []*common.KeyValue) map[string]string {
	texts := map[string]string{}
	for _, a := range all {
		texts[a.Key] = strings.Join(strings.Fields(a.Value.String()), "")
	}
	return texts
}
