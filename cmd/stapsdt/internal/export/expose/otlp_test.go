//go:build linux

package expose

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
)

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testenv.Patience); !is(); time.Sleep(time.Millisecond) {
		require.False(t, time.Now().After(deadline), "still not true: %s", what)
	}
}

// startOTLP begins to send a source's metrics.
func startOTLP(t *testing.T, endpoint string, source Collector, complain func(string)) (*OTLP, *Metrics) {
	t.Helper()
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "50")
	m := NewMetrics(source, prometheus.NewRegistry())
	u, err := parseEndpoint(endpoint)
	require.NoError(t, err)
	o, err := NewOTLP(t.Context(), u, m, complain)
	require.NoError(t, err)
	return o, m
}

func silent(string) {}

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
	families, done, err := m.Gather()
	require.NoError(t, err)
	defer done()
	for _, f := range families {
		if f.GetName() == name {
			return series(f)[label]
		}
	}
	require.Fail(t, "the attribute is missing", name)
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
		{Name: "shop_sent_bytes_total", Unit: "bytes", Labels: []string{"to"}, Series: []Series{{Values: []string{"x"}, Value: 3, Created: start}, {Overflow: true, Value: 4}}},
		{Name: "shop_depth", Unit: "requests", Kind: Gauge, Series: []Series{{Value: 2}, {Overflow: true}}},
		{Name: "shop_seconds", Unit: "seconds", Kind: Histogram, Bounds: []float64{1}, Series: []Series{
			{Buckets: []uint64{2, 1}, Sum: 4, Created: start, Exemplars: exemplar}, {Overflow: true, Buckets: []uint64{0, 1}},
		}},
		{Name: "shop_native_seconds", Unit: "seconds", Kind: Histogram, Native: true, Series: []Series{
			{Zero: 1, Exponential: map[int]uint64{-8: 2, -5: 3}, Sum: 4, Created: start, Exemplars: exemplar}, {Overflow: true},
		}},
	}, silent)
	require.NoError(t, shutdown(t, o))
	assert.Equal(t, "secret", c.header.Get("X-Token"), "headers: %v", c.header)
	of := attributes(c.metrics[0].Resource.Attributes)
	for _, want := range []string{"service.name", "service.instance.id", "host.name", "deployment.environment.name"} {
		assert.NotEmpty(t, of[want], "no %s in %v", want, of)
	}
	assert.Equal(t, `string_value:"stapsdt"`, of["service.name"], of)
	since := uint64(start.UnixNano())
	overflow := map[string]string{"otel.metric.overflow": "bool_value:true"}

	sum := c.metric("shop_sent_bytes_total")
	got := sum.GetSum()
	assert.Equal(t, "By", sum.Unit, sum)
	assert.True(t, got.IsMonotonic, sum)
	assert.Equal(t, metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE, got.AggregationTemporality, sum)
	assert.Equal(t, float64(3), got.DataPoints[1].GetAsDouble(), sum)
	assert.Equal(t, since, got.DataPoints[1].StartTimeUnixNano, sum)
	assert.Equal(t, overflow, attributes(got.DataPoints[0].Attributes), sum)
	gauge := c.metric("shop_depth")
	depth := gauge.GetGauge()
	assert.Equal(t, "{requests}", gauge.Unit, gauge)
	assert.Equal(t, float64(2), depth.DataPoints[1].GetAsDouble(), gauge)
	assert.Equal(t, overflow, attributes(depth.DataPoints[0].Attributes), gauge)
	histogram := c.metric("shop_seconds")
	seconds := histogram.GetHistogram().DataPoints[1]
	assert.Equal(t, "s", histogram.Unit, histogram)
	assert.Equal(t, []uint64{2, 1}, seconds.BucketCounts, histogram)
	assert.Equal(t, []float64{1}, seconds.ExplicitBounds, histogram)
	assert.Equal(t, float64(4), seconds.GetSum(), histogram)
	assert.Equal(t, []byte{1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}, seconds.Exemplars[0].SpanId, histogram)
	assert.Equal(t, overflow, attributes(histogram.GetHistogram().DataPoints[0].Attributes), histogram)
	native := c.metric("shop_native_seconds")
	points := native.GetExponentialHistogram().GetDataPoints()
	require.Len(t, points, 2, native)
	require.Equal(t, "s", native.Unit, native)
	require.Equal(t, overflow, attributes(points[0].Attributes), native)
	// OpenTelemetry's buckets are numbered by their lower bounds, and so by one less.
	exponential := points[1]
	assert.Equal(t, int32(3), exponential.Scale, native)
	assert.Equal(t, uint64(6), exponential.Count, native)
	assert.Equal(t, uint64(1), exponential.ZeroCount, native)
	assert.Equal(t, int32(-9), exponential.Positive.Offset, native)
	assert.Equal(t, []uint64{2, 0, 0, 3}, exponential.Positive.BucketCounts, native)
	if assert.Len(t, exponential.Exemplars, 1, native) {
		assert.Equal(t, .5, exponential.Exemplars[0].GetAsDouble(), native)
		assert.Equal(t, []byte{1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}, exponential.Exemplars[0].SpanId, native)
	}
}

// TestUnit: the codes are those of UCUM.
func TestUnit(t *testing.T) {
	for name, want := range map[string]string{"x_cpu_seconds_total": "s", "x_bytes": "By", "bytes": "By", "x": ""} {
		assert.Equal(t, want, unit(&dto.MetricFamily{Name: &name}), name)
	}
}

// TestSpansByOTLP: spans come as they are, from the process that they are of.
func TestSpansByOTLP(t *testing.T) {
	c := collect(t, "127.0.0.1:0")
	o, m := startOTLP(t, "http://"+c.addr, fixed{}, silent)
	one := span("request", 0x0123456789abcdef)
	one.Parent, one.Error = 5, "it\xff failed"
	one.Executable, one.Container, one.PID = "/usr/bin/shop", cgroup.Container{ID: "0123"}, 42
	one.Attributes = []Attribute{
		{"route", "/a\xff"}, {"n\xff", int64(-1)}, {"u", uint64(7)}, {"great", uint64(math.MaxUint64)}, {"f", 0.5}, {"ok", true},
	}
	two := span("other", 2)
	two.Provider = "sh\xffop"
	three := span("third", 3)
	for _, s := range []Span{one, two, three} {
		o.Span(s)
	}
	require.NoError(t, shutdown(t, o))
	require.Len(t, c.spans, 3)
	of := attributes(c.spans[0].Resource.Attributes)
	delete(of, "host.name")
	assert.Equal(t, map[string]string{
		"service.name": `string_value:"shop"`, "process.pid": "int_value:42", "process.executable.name": `string_value:"shop"`, "container.id": `string_value:"0123"`,
	}, of)
	got := c.spans[0].ScopeSpans[0].Spans[0]
	want := map[string]string{
		"route": "string_value:\"/a\uFFFD\"", "n\uFFFD": "int_value:-1", "u": "int_value:7", "great": `string_value:"18446744073709551615"`,
		"f": "double_value:0.5", "ok": "bool_value:true",
	}
	assert.Equal(t, want, attributes(got.Attributes), got.Attributes)
	assert.Equal(t, "request", got.Name, got)
	assert.Equal(t, trace.Status_STATUS_CODE_ERROR, got.Status.Code, got)
	assert.Equal(t, "it\uFFFD failed", got.Status.Message, got)
	assert.Equal(t, []byte{7: 5}, got.ParentSpanId, got)
	assert.Equal(t, []byte{1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}, got.SpanId, got)
	assert.Len(t, got.TraceId, 16, got)
	assert.Equal(t, uint64(start.UnixNano()), got.StartTimeUnixNano, got)
	assert.Equal(t, uint64(time.Second), got.EndTimeUnixNano-got.StartTimeUnixNano, got)
	root := c.spans[1].ScopeSpans[0].Spans[0]
	assert.Empty(t, root.ParentSpanId, root)
	assert.Equal(t, trace.Status_STATUS_CODE_UNSET, root.Status.GetCode(), root)
	assert.Equal(t, float64(3), own(t, m, "stapsdt_export_otlp_spans_total", `result="sent"`), "sent")
	o.Span(one)
	assert.Equal(t, float64(1), own(t, m, "stapsdt_export_otlp_spans_total", `result="dropped"`), "dropped after the end")
}
