//go:build linux && (amd64 || arm64)

package command_test

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	tracecollector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestExportSpans: spans are sent with what their probes say, and each has the parent and the
// trace that it belongs to.
func TestExportSpans(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	const provider = "export_spans"
	p := startExportee(t, provider)
	received := make(chan *tracepb.Span, 100)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/traces" {
			for _, s := range spansOf(t, r) {
				received <- s
			}
		}
	}))
	t.Cleanup(collector.Close)
	e := startExporter(t, provider, "spans:\n  - {probe: 'PROVIDER:job', where: 'rows < 5'}\n"+
		"metrics:\n  - {name: job_seconds, probe: 'PROVIDER:job__end', histogram: nanoseconds, unit: seconds, where: 'rows < 5', labels: []}\n", "--otlp", collector.URL)
	e.waitForSites(provider+":job", 2)
	e.waitForSites("job_seconds", 1)
	before := time.Now()
	tell(p, "job 6")
	exemplars := e.exemplars()
	require.NotEmpty(t, exemplars)
	e.Signal(os.Interrupt) // what was fired is sent
	require.NoError(t, e.Wait(testenv.Patience))
	close(received)
	outer, inner := map[string]*tracepb.Span{}, []*tracepb.Span{}
	for s := range received {
		delete(exemplars, hex.EncodeToString(s.SpanId))
		require.Equal(t, "job", s.Name)
		if len(s.ParentSpanId) == 0 {
			outer[string(s.SpanId)] = s
		} else {
			inner = append(inner, s)
		}
	}
	require.Empty(t, exemplars, "each is one of the spans")
	require.Len(t, outer, 6)
	require.Len(t, inner, 5, "the last one has too many rows")
	traces := map[string]bool{}
	for _, s := range inner {
		parent := outer[string(s.ParentSpanId)]
		require.NotNil(t, parent)
		require.Equal(t, parent.TraceId, s.TraceId)
		traces[string(s.TraceId)] = true
		require.LessOrEqual(t, parent.StartTimeUnixNano, s.StartTimeUnixNano)
		require.GreaterOrEqual(t, parent.EndTimeUnixNano, s.EndTimeUnixNano)
		require.GreaterOrEqual(t, s.EndTimeUnixNano-s.StartTimeUnixNano, uint64(time.Millisecond))
		require.WithinRange(t, time.Unix(0, int64(s.EndTimeUnixNano)), before, time.Now())
		text := fmt.Sprint(s.Attributes)
		for _, attribute := range []string{`name`, `inner`, `priority`, `rows`, `ratio`, `last`} {
			require.Contains(t, text, attribute)
		}
		require.Equal(t, tracepb.Status_STATUS_CODE_ERROR, parent.Status.Code)
		require.Equal(t, "no luck", parent.Status.Message)
		require.NotEqual(t, tracepb.Status_STATUS_CODE_ERROR, s.Status.GetCode())
	}
	require.Len(t, traces, 5)
}

// exemplars returns the ids of the spans that the histograms name.
func (e *exporter) exemplars() map[string]bool {
	found := map[string]bool{}
	for _, match := range regexp.MustCompile(`# \{span_id="([0-9a-f]{16})"\}`).FindAllStringSubmatch(e.body("application/openmetrics-text; version=1.0.0"), -1) {
		found[match[1]] = true
	}
	return found
}

// spansOf reads the spans of a request.
func spansOf(t *testing.T, r *http.Request) (all []*tracepb.Span) {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		body = tracetest.Must(gzip.NewReader(body))(t)
	}
	text := tracetest.Must(io.ReadAll(body))(t)
	var request tracecollector.ExportTraceServiceRequest
	require.NoError(t, proto.Unmarshal(text, &request))
	for _, resource := range request.ResourceSpans {
		require.Contains(t, fmt.Sprint(resource.Resource.Attributes), "service.name")
		for _, scope := range resource.ScopeSpans {
			all = append(all, scope.Spans...)
		}
	}
	return all
}
