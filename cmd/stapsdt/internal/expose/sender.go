//go:build linux

package expose

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
)

const (
	maxQueued  = 2048 // spans that wait
	maxBatch   = 512
	batchEvery = 2 * time.Second
	tryLimit   = 30 * time.Second
	firstDelay = time.Second // before it is tried again
	maxDelay   = 30 * time.Second
)

// sender sends spans in batches. Those that come while a collector is gone wait, as many as the
// queue has room for.
type sender struct {
	client otlptrace.Client
	queue  chan Span
	delay  time.Duration // before the first retry
	limit  time.Duration // for one try

	ctx   context.Context // ends when shutdown is called
	stop  context.CancelFunc
	late  chan context.Context // that of shutdown
	ended chan struct{}        // closed when run has returned

	failures prometheus.Counter
	spans    *prometheus.CounterVec
}

// The values of the label result.
const (
	sent    = "sent"
	dropped = "dropped"
	refused = "refused"
)

func newSender(client otlptrace.Client, own prometheus.Registerer, failures prometheus.Counter) *sender {
	s := &sender{
		client: client, queue: make(chan Span, maxQueued), delay: firstDelay, limit: tryLimit,
		late: make(chan context.Context, 1), ended: make(chan struct{}), failures: failures,
		spans: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stapsdt_export_otlp_spans_total",
			Help: "Spans by what became of them: sent, refused by the collector, or dropped because the queue was full or the exporter ended.",
		}, []string{"result"}),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	for _, result := range []string{sent, dropped, refused} {
		s.spans.WithLabelValues(result)
	}
	own.MustRegister(s.spans, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stapsdt_export_otlp_queued_spans",
		Help: "Spans that wait in the queue.",
	}, func() float64 { return float64(len(s.queue)) }))
	return s
}

// add puts a span into the queue.
func (s *sender) add(span Span) {
	if s.ctx.Err() == nil {
		select {
		case s.queue <- span:
			return
		default:
		}
	}
	s.count(dropped, 1)
}

func (s *sender) count(result string, spans int) {
	s.spans.WithLabelValues(result).Add(float64(spans))
}

// shutdown sends what is in the queue. It is called once.
func (s *sender) shutdown(ctx context.Context) (err error) {
	s.late <- ctx
	s.stop()
	select {
	case <-s.ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return errors.Join(err, s.client.Stop(ctx))
}

// run sends batches until shutdown is called, and then the rest.
func (s *sender) run() {
	defer close(s.ended)
	var batch []Span
	for s.ctx.Err() == nil {
		batch = s.wait()
		if s.send(batch) {
			batch = nil
		}
	}
	late := <-s.late
	for batch = s.take(batch); len(batch) > 0; batch = s.take(nil) {
		// Once: a collector that is gone must not hold up the end of the exporter.
		if !s.try(late, batch) {
			s.count(dropped, len(batch)+len(s.queue))
			return
		}
	}
}

// wait returns the next spans, as soon as there are enough or the first has waited long enough.
func (s *sender) wait() (batch []Span) {
	var enough <-chan time.Time
	for len(batch) < maxBatch {
		select {
		case span := <-s.queue:
			if batch = append(batch, span); len(batch) == 1 {
				enough = time.After(batchEvery)
			}
		case <-enough:
			return batch
		case <-s.ctx.Done():
			return batch
		}
	}
	return batch
}

// take adds spans to a batch without waiting.
func (s *sender) take(batch []Span) []Span {
	for len(batch) < maxBatch {
		select {
		case span := <-s.queue:
			batch = append(batch, span)
		default:
			return batch
		}
	}
	return batch
}

// send sends a batch, and tries again while the collector cannot be reached. It reports whether
// the collector has answered before shutdown was called.
func (s *sender) send(batch []Span) (answered bool) {
	if len(batch) == 0 {
		return true
	}
	for delay := s.delay; !s.try(s.ctx, batch); delay = min(2*delay, maxDelay) {
		select {
		case <-time.After(delay):
		case <-s.ctx.Done():
			return false
		}
	}
	return true
}

// try sends a batch once, and reports whether the collector has answered. If it wants to be asked
// again, the client does that for a while.
func (s *sender) try(ctx context.Context, batch []Span) (answered bool) {
	limited, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	err := s.client.UploadTraces(limited, convertSpans(batch))
	if err == nil {
		s.count(sent, len(batch))
		return true
	}
	if ctx.Err() != nil {
		return false
	}
	otel.Handle(err)
	if lost, partly := rejected(err); partly {
		lost = min(lost, len(batch))
		s.count(sent, len(batch)-lost)
		s.count(refused, lost)
		if lost > 0 {
			s.failures.Inc()
		}
		return true
	}
	s.failures.Inc()
	var unreachable *url.Error
	if errors.As(err, &unreachable) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	s.count(refused, len(batch))
	return true
}

// partialSuccess is the error of a collector that has accepted the rest. Its type is internal to the clients.
var partialSuccess = regexp.MustCompile(`OTLP partial success: (?s:.*)\((\d+) (?:spans|metric data points) rejected\)$`)

// rejected returns how much a collector has refused, if it has accepted the rest.
func rejected(err error) (n int, partly bool) {
	match := partialSuccess.FindStringSubmatch(err.Error())
	if match == nil {
		return 0, false
	}
	n, err = strconv.Atoi(match[1])
	return n, err == nil
}
