//go:build linux

package expose

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
)

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
	o, m := startOTLP(t, "http://"+c.addr, &growing{}, quiet())
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
	assert.NoError(t, shutdown(t, o))
	assert.Equal(t, []string{"waits", "later"}, c.names())
	assert.Contains(t, log.String(), "400 Bad Request")
}

// TestCollectorRejects: of a batch, only what the collector says to have rejected is refused, and a warning without any is no failure.
func TestCollectorRejects(t *testing.T) {
	const spans = 100
	for lost, failures := range map[int64]float64{0: 0, 1: 1, spans + 1: 1} {
		c := collect(t, "127.0.0.1:0")
		c.partial = &coltrace.ExportTracePartialSuccess{RejectedSpans: lost, ErrorMessage: "too old\n(7 spans rejected)"}
		o, m := startOTLP(t, "http://"+c.addr, fixed{}, quiet())
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
	assert.Equal(t, float64(2), own(t, m, "failures", ""), "failures")
	assert.NoError(t, s.shutdown(t.Context()))
}

// TestShutdownWithoutCollector: a collector that is gone does not hold up the end.
func TestShutdownWithoutCollector(t *testing.T) {
	o, m := startOTLP(t, "http://"+reserve(t), fixed{}, quiet())
	for i := range 2 * maxBatch {
		o.Span(span("lost", uint64(i+1)))
	}
	assert.Error(t, shutdown(t, o), "metrics that were not sent are no error")
	assert.LessOrEqual(t, own(t, m, "stapsdt_export_otlp_failures_total", `signal="traces"`), float64(2), "once before the end, and once then")
	assert.Equal(t, float64(2*maxBatch), own(t, m, "stapsdt_export_otlp_spans_total", `result="dropped"`), "dropped")
}
