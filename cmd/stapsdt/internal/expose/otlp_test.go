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
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// patience is for what takes less than a second on an idle machine.
const patience = time.Minute

// collector receives OTLP, as a collector does.
type collector struct {
	addr   string
	server *http.Server

	mu      sync.Mutex
	status  int // that it answers, or 0
	asked   int // how often
	header  http.Header
	metrics []*metrics.ResourceMetrics // the last that were sent
	spans   []*trace.ResourceSpans     // all that were sent
}

// collect starts a collector at an address, which may have the port 0. It runs until the test
// ends.
func collect(t *testing.T, addr string) *collector {
	t.Helper()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
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
	c.asked++
	c.header = r.Header
	if c.status != 0 {
		http.Error(w, "not now", c.status)
		return
	}
	if err == nil {
		err = c.receive(r.URL.Path, body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
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

// answers sets the status of all answers, and returns how often it has been asked before.
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

// until waits until something is true.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
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
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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
	c := collect(t, "127.0.0.1:0")
	o, m := startOTLP(t, "http://"+c.addr, &growing{}, quiet())
	until(t, "metrics come", func() bool { return c.metric("n_total") != nil })
	if err := c.server.Close(); err != nil {
		t.Fatal(err)
	}
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
	if n := own(t, m, "stapsdt_export_otlp_spans_total", `result="dropped"`); n != more {
		t.Errorf("%v are dropped", n)
	}
	if n := own(t, m, "stapsdt_export_otlp_queued_spans", ""); n != maxQueued {
		t.Errorf("%v wait", n)
	}
	before := c.metric("n_total").GetSum().DataPoints[0].GetAsDouble()
	back := collect(t, c.addr)
	until(t, "all come", func() bool { return len(back.names()) == maxBatch+maxQueued })
	names := back.names()
	slices.Sort(names)
	for i := range maxQueued {
		if _, found := slices.BinarySearch(names, fmt.Sprint(i)); !found {
			t.Fatalf("span %d has not come", i)
		}
	}
	until(t, "metrics come again", func() bool { return back.metric("n_total") != nil })
	if point := back.metric("n_total").GetSum().DataPoints[0]; point.GetAsDouble() <= before || point.StartTimeUnixNano != uint64(start.UnixNano()) {
		t.Errorf("%v, and %v before", point, before)
	}
	if err := shutdown(t, o); err != nil {
		t.Error(err)
	}
	if n := own(t, m, "stapsdt_export_otlp_spans_total", `result="sent"`); n != maxBatch+maxQueued {
		t.Errorf("%v were sent", n)
	}
}

// TestCollectorRefuses: a collector that is busy is asked again, and what it refuses for good is
// counted.
func TestCollectorRefuses(t *testing.T) {
	c := collect(t, "127.0.0.1:0")
	var log bytes.Buffer
	o, m := startOTLP(t, "http://"+c.addr, fixed{}, slog.New(slog.NewTextHandler(&log, nil)))
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
	if err := shutdown(t, o); err != nil {
		t.Error(err)
	}
	if names := c.names(); !slices.Equal(names, []string{"waits", "later"}) {
		t.Errorf("%v", names)
	}
	if !strings.Contains(log.String(), "400 Bad Request") {
		t.Errorf("the log says %s", log.String())
	}
}

// busy is a client of a collector that answers the third request only.
type busy struct {
	otlptrace.Client
	asked int
}

func (b *busy) UploadTraces(ctx context.Context, _ []*trace.ResourceSpans) error {
	if b.asked++; b.asked == 3 {
		return nil
	}
	<-ctx.Done()
	return fmt.Errorf("%w: the collector is busy", ctx.Err())
}

func (b *busy) Stop(context.Context) error { return nil }

// TestCollectorBusy: each time that a collector has been busy for long is a failure, and what was
// to be sent is sent again.
func TestCollectorBusy(t *testing.T) {
	registry := prometheus.NewRegistry()
	failures := prometheus.NewCounter(prometheus.CounterOpts{Name: "failures"})
	registry.MustRegister(failures)
	client := &busy{}
	s := newSender(client, registry, failures)
	s.delay, s.limit = time.Millisecond, time.Millisecond
	go s.run()
	s.add(span("waits", 1))
	m := NewMetrics(fixed{}, registry)
	until(t, "it comes", func() bool { return own(t, m, "stapsdt_export_otlp_spans_total", `result="sent"`) == 1 })
	if n := own(t, m, "failures", ""); n != 2 {
		t.Errorf("%v failures", n)
	}
	if err := s.shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestShutdownWithoutCollector: a collector that is gone does not hold up the end.
func TestShutdownWithoutCollector(t *testing.T) {
	c := collect(t, "127.0.0.1:0")
	c.server.Close()
	o, m := startOTLP(t, "http://"+c.addr, fixed{}, quiet())
	for i := range 2 * maxBatch {
		o.Span(span("lost", uint64(i+1)))
	}
	began := time.Now()
	if err := shutdown(t, o); err == nil {
		t.Error("metrics that were not sent are no error")
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("it takes %v", took)
	}
	if n := own(t, m, "stapsdt_export_otlp_spans_total", `result="dropped"`); n != 2*maxBatch {
		t.Errorf("%v were dropped", n)
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
