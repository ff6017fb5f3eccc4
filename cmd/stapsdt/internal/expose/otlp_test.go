//go:build linux

package expose

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/prometheus/client_golang/prometheus"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
)

// until waits until something is true.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testenv.Patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it is not so: %s", what)
		}
	}
}

// startOTLP begins to send a source's metrics.
func startOTLP(t *testing.T, endpoint string, source Source, log *slog.Logger) (*OTLP, *Metrics) {
	t.Helper()
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "50")
	m := NewMetrics(source, prometheus.NewRegistry())
	o, err := NewOTLP(t.Context(), endpoint, m, log)
	if err != nil {
		t.Fatal(err)
	}
	return o, m
}

// shutdown ends the sending, for which a collector that answers needs no time.
func shutdown(t *testing.T, o *OTLP) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	return o.Shutdown(ctx)
}

// own returns the value of one of the exporter's own counters.
func own(t *testing.T, m *Metrics, name, label string) float64 {
	t.Helper()
	families, _ := m.Gather()
	for _, f := range families {
		if f.GetName() == name {
			return series(f)[label]
		}
	}
	t.Fatalf("no %s", name)
	return 0
}

func span(name string, n uint64) Span {
	return Span{Provider: "shop", Name: name, TraceID: [16]byte{15: byte(n)}, SpanID: n, Start: start, End: start.Add(time.Second)}
}

// TestMetricsByOTLP: they are those for Prometheus, with the units, the temporality and the ids
// that OpenTelemetry has.
func TestMetricsByOTLP(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-token=secret")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	c := collect(t, "127.0.0.1:0")
	exemplar := []Exemplar{{Value: .5, Time: start, SpanID: 0x0123456789abcdef}}
	o, _ := startOTLP(t, "http://"+c.addr, fixed{
		{Name: "shop_sent_bytes_total", Unit: "bytes", Labels: []string{"to"}, Series: []Series{{Values: []string{"\xff"}, Value: 3, Created: start}, {Overflow: true, Value: 4}}},
		{Name: "shop_depth", Unit: "requests", Kind: Gauge, Series: []Series{{Value: 2}, {Overflow: true}}},
		{Name: "shop_seconds", Unit: "seconds", Kind: Histogram, Bounds: []float64{1}, Series: []Series{
			{Buckets: []uint64{2, 1}, Sum: 4, Created: start, Exemplars: exemplar}, {Overflow: true, Buckets: []uint64{0, 1}},
		}},
		{Name: "shop_native_seconds", Unit: "seconds", Kind: Histogram, Native: true, Series: []Series{
			{Zero: 1, Exponential: map[int]uint64{-8: 2, -5: 3}, Sum: 4, Created: start, Exemplars: exemplar}, {Overflow: true},
		}},
	}, quiet())
	if err := shutdown(t, o); err != nil {
		t.Fatal(err)
	}
	if c.header.Get("X-Token") != "secret" {
		t.Errorf("headers: %v", c.header)
	}
	of := attributes(c.metrics[0].Resource.Attributes)
	for _, want := range []string{"service.name", "service.instance.id", "host.name", "deployment.environment.name"} {
		if of[want] == "" {
			t.Errorf("no %s in %v", want, of)
		}
	}
	if of["service.name"] != `string_value:"stapsdt"` {
		t.Errorf("%v", of)
	}
	since := uint64(start.UnixNano())
	overflow := map[string]string{"otel.metric.overflow": "bool_value:true"}

	sum := c.metric("shop_sent_bytes_total")
	if got := sum.GetSum(); sum.Unit != "By" || !got.IsMonotonic || got.AggregationTemporality != metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE ||
		got.DataPoints[1].GetAsDouble() != 3 || got.DataPoints[1].StartTimeUnixNano != since || !maps.Equal(attributes(got.DataPoints[0].Attributes), overflow) {
		t.Errorf("%v", sum)
	}
	gauge := c.metric("shop_depth")
	if got := gauge.GetGauge(); gauge.Unit != "{requests}" || got.DataPoints[1].GetAsDouble() != 2 || !maps.Equal(attributes(got.DataPoints[0].Attributes), overflow) {
		t.Errorf("%v", gauge)
	}
	histogram := c.metric("shop_seconds")
	got := histogram.GetHistogram().DataPoints[1]
	if histogram.Unit != "s" || !slices.Equal(got.BucketCounts, []uint64{2, 1}) || !slices.Equal(got.ExplicitBounds, []float64{1}) || got.GetSum() != 4 ||
		!bytes.Equal(got.Exemplars[0].SpanId, []byte{1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}) ||
		!maps.Equal(attributes(histogram.GetHistogram().DataPoints[0].Attributes), overflow) {
		t.Errorf("%v", histogram)
	}
	native := c.metric("shop_native_seconds")
	points := native.GetExponentialHistogram().GetDataPoints()
	if len(points) != 2 || native.Unit != "s" || !maps.Equal(attributes(points[0].Attributes), overflow) {
		t.Fatalf("%v", native)
	}
	// OpenTelemetry's buckets are numbered by their lower bounds, and so by one less.
	if got := points[1]; got.Scale != 3 || got.Count != 6 || got.ZeroCount != 1 || got.Positive.Offset != -9 || !slices.Equal(got.Positive.BucketCounts, []uint64{2, 0, 0, 3}) ||
		len(got.Exemplars) != 1 || got.Exemplars[0].GetAsDouble() != .5 || !bytes.Equal(got.Exemplars[0].SpanId, []byte{1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}) {
		t.Errorf("%v", native)
	}
}

// TestUnit: the codes are those of UCUM.
func TestUnit(t *testing.T) {
	c := collect(t, "127.0.0.1:0")
	log := prometheus.NewRegistry()
	log.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "x_cpu_seconds_total"}), prometheus.NewGauge(prometheus.GaugeOpts{Name: "x_bytes"}),
		prometheus.NewGauge(prometheus.GaugeOpts{Name: "bytes"}), prometheus.NewGauge(prometheus.GaugeOpts{Name: "x"}))
	o, err := NewOTLP(t.Context(), "http://"+c.addr+"/", NewMetrics(fixed{}, log), quiet())
	if err != nil {
		t.Fatal(err)
	}
	if err := shutdown(t, o); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"x_cpu_seconds_total": "s", "x_bytes": "By", "bytes": "By", "x": ""} {
		if m := c.metric(name); m == nil || m.Unit != want {
			t.Errorf("%s: %v", name, m)
		}
	}
}

// TestSpansByOTLP: spans come as they are, from the process that they are of.
func TestSpansByOTLP(t *testing.T) {
	c := collect(t, "127.0.0.1:0")
	o, m := startOTLP(t, "http://"+c.addr, fixed{}, quiet())
	one := span("request", 0x0123456789abcdef)
	one.Parent, one.Error = 5, "it\xff failed"
	one.Executable, one.Container, one.PID = "/usr/bin/shop", "0123", 42
	one.Attributes = []Attribute{
		{"route", "/a\xff"}, {"n\xff", int64(-1)}, {"u", uint64(7)}, {"great", uint64(math.MaxUint64)}, {"f", 0.5}, {"ok", true},
	}
	two := span("other", 2)
	two.Provider = "sh\xffop"
	three := span("third", 3)
	for _, s := range []Span{one, two, three} {
		o.Span(s)
	}
	if err := shutdown(t, o); err != nil {
		t.Fatal(err)
	}
	if len(c.spans) != 3 {
		t.Fatalf("%v", c.spans)
	}
	of := attributes(c.spans[0].Resource.Attributes)
	delete(of, "host.name")
	if !maps.Equal(of, map[string]string{
		"service.name": `string_value:"shop"`, "process.pid": "int_value:42", "process.executable.name": `string_value:"shop"`, "container.id": `string_value:"0123"`,
	}) {
		t.Errorf("%v", of)
	}
	got := c.spans[0].ScopeSpans[0].Spans[0]
	want := map[string]string{
		"route": "string_value:\"/a\uFFFD\"", "n\uFFFD": "int_value:-1", "u": "int_value:7", "great": `string_value:"18446744073709551615"`,
		"f": "double_value:0.5", "ok": "bool_value:true",
	}
	if !maps.Equal(attributes(got.Attributes), want) {
		t.Errorf("%v", got.Attributes)
	}
	if got.Name != "request" || got.Status.Code != trace.Status_STATUS_CODE_ERROR || got.Status.Message != "it\uFFFD failed" ||
		!bytes.Equal(got.ParentSpanId, []byte{7: 5}) || !bytes.Equal(got.SpanId, []byte{1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}) ||
		len(got.TraceId) != 16 || got.StartTimeUnixNano != uint64(start.UnixNano()) || got.EndTimeUnixNano-got.StartTimeUnixNano != uint64(time.Second) {
		t.Errorf("%v", got)
	}
	if root := c.spans[1].ScopeSpans[0].Spans[0]; len(root.ParentSpanId) != 0 || root.Status.GetCode() != trace.Status_STATUS_CODE_UNSET {
		t.Errorf("%v", root)
	}
	if n := own(t, m, "stapsdt_export_otlp_spans_total", `result="sent"`); n != 3 {
		t.Errorf("%v were sent", n)
	}
	o.Span(one)
	if n := own(t, m, "stapsdt_export_otlp_spans_total", `result="dropped"`); n != 1 {
		t.Errorf("%v were dropped after the end", n)
	}
}

// TestEndpoint: what is not a URL is an error.
func TestEndpoint(t *testing.T) {
	for _, endpoint := range []string{"", "host:4318", "grpc://host:4317", "http://", ":", "/path"} {
		if _, err := NewOTLP(t.Context(), endpoint, NewMetrics(fixed{}, prometheus.NewRegistry()), quiet()); err == nil {
			t.Errorf("%q is an endpoint", endpoint)
		}
	}
}

// TestComplaints: an error is logged when it is new.
func TestComplaints(t *testing.T) {
	var log bytes.Buffer
	c := &complaints{log: slog.New(slog.NewTextHandler(&log, nil)), last: map[string]time.Time{}}
	for _, text := range []string{"a", "a", "b", "a"} {
		c.Handle(fmt.Errorf("%s is gone", text))
	}
	if n := strings.Count(log.String(), "is gone"); n != 2 {
		t.Errorf("%d times: %s", n, log.String())
	}
	for i := range 10 * maxTexts {
		c.Handle(fmt.Errorf("%d", i))
	}
	if len(c.last) > maxTexts {
		t.Errorf("%d errors are remembered", len(c.last))
	}
}

// TestEndlessAnswer: of an answer that does not end, a few megabytes are read. A gzip bomb counts
// as what it becomes.
func TestEndlessAnswer(t *testing.T) {
	const limit = 16 << 20 // with what is on its way
	for _, encoding := range []string{"", "gzip"} {
		t.Run(encoding, func(t *testing.T) {
			var answers, most atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				var to io.Writer = w
				if encoding != "" {
					w.Header().Set("Content-Encoding", encoding)
					zip := gzip.NewWriter(w)
					zip.Flush()
					to = zip
				}
				chunk, n := make([]byte, 1<<20), int64(0)
				for ; n < 1<<30; n += int64(len(chunk)) {
					if _, err := to.Write(chunk); err != nil || r.Context().Err() != nil {
						break
					}
				}
				most.Store(max(most.Load(), n))
				answers.Add(1)
			}))
			defer server.Close()
			o, _ := startOTLP(t, server.URL, fixed{{Name: "a", Series: []Series{{Value: 1}}}}, quiet())
			o.Span(span("a", 1))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			deadline := time.Now().Add(testenv.Patience)
			for answers.Load() < 2 {
				if time.Now().After(deadline) {
					t.Fatalf("%d answers", answers.Load())
				}
				time.Sleep(10 * time.Millisecond)
			}
			_ = shutdown(t, o) // it has failed to send
			runtime.ReadMemStats(&after)
			if encoding == "" && most.Load() > limit {
				t.Errorf("%d bytes of an answer were taken", most.Load())
			}
			if taken := (after.Sys - before.Sys); int64(taken) > 8*limit {
				t.Errorf("it took %d bytes of memory", taken)
			}
		})
	}
}
