//go:build linux && (amd64 || arm64)

package fleet

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/stretchr/testify/require"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
)

// texts returns the attributes that are texts.
func texts(attributes []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, a := range attributes {
		if text, ok := a.Value.Value.(*common.AnyValue_StringValue); ok {
			all[a.Key] = text.StringValue
		}
	}
	return all
}

// last returns what has come last of a metric, or nil, and who sent it.
func last(c *Collector, name string) (*metrics.Metric, map[string]string) {
	for _, r := range slices.Backward(c.Metrics()) {
		for _, s := range r.ScopeMetrics {
			for _, m := range s.Metrics {
				if m.Name == name {
					return m, texts(r.Resource.Attributes)
				}
			}
		}
	}
	return nil, nil
}

// counted waits until the collector has these values of the counter said_total, by the text.
func counted(t *testing.T, c *Collector, want map[string]float64) {
	t.Helper()
	require.Eventually(t, func() bool {
		m, _ := last(c, "said_total")
		got := map[string]float64{}
		for _, p := range m.GetSum().GetDataPoints() {
			got[texts(p.Attributes)["text"]] = p.GetAsDouble()
		}
		return maps.Equal(got, want)
	}, testenv.Patience, 50*time.Millisecond, "%v", want)
}

// jobs returns all spans, by their ids.
func jobs(c *Collector) map[string]*trace.Span {
	all := map[string]*trace.Span{}
	for _, r := range c.Spans() {
		for _, s := range r.ScopeSpans {
			for _, span := range s.Spans {
				all[string(span.SpanId)] = span
			}
		}
	}
	return all
}

// TestCollector: a collector gets what was fired, and what was fired while it was gone too.
func TestCollector(t *testing.T) {
	needs(t, "it builds an OpenTelemetry Collector")
	const provider = "fleet_collector"
	c := StartCollector(t)
	program := fires(t, provider)
	e := exports(t, provider, rules+"spans:\n  - {probe: 'PROVIDER:job'}\n", "localhost:0", "--otlp", c.URL)
	require.Eventually(t, func() bool {
		m, _ := last(c, "stapsdt_attached_sites")
		sites := 0.0
		for _, p := range m.GetGauge().GetDataPoints() {
			sites += p.GetAsDouble()
		}
		return sites == 7+2
	}, testenv.Patience, 50*time.Millisecond)

	does(program, `say "a"`, `say "bb"`, `say "a\xff"`, "level -7", "job 50")
	want := map[string]float64{"a": 1, "bb": 1, "a\uFFFD": 1}
	counted(t, c, want)
	require.Eventually(t, func() bool { return len(jobs(c)) == 100 }, testenv.Patience, 50*time.Millisecond)

	c.Stop()
	does(program, `say "while it was gone"`, "job 20")
	for _, path := range []string{"/v1/metrics", "/v1/traces"} {
		require.Eventually(t, func() bool { return strings.Contains(e.Dump(), c.URL+path) }, testenv.Patience, 50*time.Millisecond, "it complains")
	}
	c.Start()
	want["while it was gone"] = 1
	counted(t, c, want)
	require.Eventually(t, func() bool { return len(jobs(c)) == 140 }, testenv.Patience, 50*time.Millisecond)

	does(program, `say "last"`, "job 1")
	want["last"] = 1
	e.Signal(os.Interrupt) // what was fired is sent
	require.NoError(t, e.Wait(testenv.Patience))
	c.Stop() // what it has received is in its files
	counted(t, c, want)
	requireJobs(t, c, 142)
	requireMetrics(t, c, 142)
}

// requireJobs: the spans are as the program made them.
func requireJobs(t *testing.T, c *Collector, count int) {
	t.Helper()
	all := jobs(c)
	require.Equal(t, count, len(all))
	inner := 0
	for _, s := range all {
		require.Equal(t, "job", s.Name)
		require.GreaterOrEqual(t, s.EndTimeUnixNano-s.StartTimeUnixNano, uint64(time.Millisecond))
		if len(s.ParentSpanId) == 0 {
			require.Equal(t, trace.Status_STATUS_CODE_ERROR, s.Status.Code)
			require.Equal(t, "no luck", s.Status.Message)
			require.Equal(t, "outer", texts(s.Attributes)["name"])
			continue
		}
		inner++
		require.Equal(t, "inner", texts(s.Attributes)["name"])
		parent := all[string(s.ParentSpanId)]
		require.NotNil(t, parent)
		require.Equal(t, parent.TraceId, s.TraceId)
	}
	require.Equal(t, count/2, inner)
	for _, r := range c.Spans() {
		of := texts(r.Resource.Attributes)
		require.Equal(t, "fleet_collector", of["service.name"])
		require.NotEmpty(t, of["host.name"])
		require.NotEmpty(t, of["process.executable.name"])
	}
}

// requireMetrics: histograms of both forms have what was fired, and exemplars whose spans have come.
func requireMetrics(t *testing.T, c *Collector, count uint64) {
	t.Helper()
	classic, from := last(c, "job_seconds")
	require.Equal(t, "stapsdt", from["service.name"])
	point := classic.GetHistogram().DataPoints[0]
	require.Equal(t, []uint64{0, count, 0}, point.BucketCounts)
	native, _ := last(c, "job_native_seconds")
	exponential := native.GetExponentialHistogram().DataPoints[0]
	require.Equal(t, count, exponential.Count)
	require.InDelta(t, point.GetSum(), exponential.GetSum(), 1e-6)
	require.Greater(t, point.GetSum(), .001*float64(count))
	for _, exemplars := range [][]*metrics.Exemplar{point.Exemplars, exponential.Exemplars} {
		require.NotEmpty(t, exemplars)
		for _, e := range exemplars {
			require.NotNil(t, jobs(c)[string(e.SpanId)])
		}
	}
}
