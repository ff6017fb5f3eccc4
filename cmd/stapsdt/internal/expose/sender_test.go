//go:build linux

package expose

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
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
	if took := time.Since(began); took > testenv.Patience/2 {
		t.Errorf("it takes %v", took)
	}
	if n := own(t, m, "stapsdt_export_otlp_spans_total", `result="dropped"`); n != 2*maxBatch {
		t.Errorf("%v were dropped", n)
	}
}
