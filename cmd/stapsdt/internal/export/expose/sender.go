//go:build linux

package expose

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coltrace "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	maxQueued  = 2048 // the capacity of the queue, in spans
	maxBatch   = 512
	batchEvery = 2 * time.Second
)

// sender sends spans in batches. While a collector is absent, new spans wait in the queue as long
// as there is room.
type sender struct {
	*client
	backoff
	queue chan Span
	batch []Span          // the batch being sent
	ctx   context.Context // ends run
	spans *prometheus.CounterVec
}

// The values of the label result.
const (
	sent    = "sent"
	dropped = "dropped"
	refused = "refused"
)

func newSender(ctx context.Context, c *client, own prometheus.Registerer) *sender {
	s := &sender{
		client: c, backoff: backoff{first: firstDelay}, queue: make(chan Span, maxQueued), ctx: ctx,
		spans: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stapsdt_export_otlp_spans_total",
			Help: "Spans by their outcome: sent, refused by the collector, or dropped because the queue was full or the exporter ended.",
		}, []string{"result"}),
	}
	for _, result := range []string{sent, dropped, refused} {
		s.spans.WithLabelValues(result)
	}
	own.MustRegister(s.spans, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stapsdt_export_otlp_queued_spans",
		Help: "Spans that wait in the queue.",
	}, func() float64 { return float64(len(s.queue)) }))
	return s
}

// add puts a span into the queue. It never waits.
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

// run sends batches until its context is done.
func (s *sender) run() {
	for s.ctx.Err() == nil {
		s.wait()
		for {
			pause, again := s.next(s.try(s.ctx))
			if !again {
				break
			}
			select {
			case <-time.After(pause):
			case <-s.ctx.Done():
				return
			}
		}
	}
}

// wait fills a batch until it has enough spans or the first one has waited long enough.
func (s *sender) wait() {
	var enough <-chan time.Time
	for len(s.batch) < maxBatch {
		select {
		case span := <-s.queue:
			if s.batch = append(s.batch, span); len(s.batch) == 1 {
				enough = time.After(batchEvery)
			}
		case <-enough:
			return
		case <-s.ctx.Done():
			return
		}
	}
}

// try sends the batch once, in parts if the collector takes only smaller messages. It returns a
// temporary error if the rest of the batch should be sent again.
func (s *sender) try(ctx context.Context) error {
	for len(s.batch) > 0 {
		n, message := s.fit(len(s.batch), func(n int) proto.Message {
			return &coltrace.ExportTraceServiceRequest{ResourceSpans: convertSpans(s.batch[:n])}
		})
		var answer coltrace.ExportTraceServiceResponse
		err := s.send(ctx, message, &answer)
		switch {
		case isTemporary(err):
			return err
		case errors.Is(err, errSize) && n > 1:
			continue
		}
		lost := n
		if err == nil {
			partial := answer.GetPartialSuccess()
			lost = int(min(max(partial.GetRejectedSpans(), 0), int64(lost)))
			s.partly(int64(lost), "spans", partial.GetErrorMessage())
		}
		s.count(sent, n-lost)
		s.count(refused, lost)
		s.batch = s.batch[n:]
	}
	s.batch = nil
	return nil
}

// flush sends the remaining spans after run has returned. It sends each batch once: an absent
// collector must not delay the end of the exporter.
func (s *sender) flush(ctx context.Context) error {
	for len(s.batch)+len(s.queue) > 0 {
		for len(s.batch) < maxBatch && len(s.queue) > 0 {
			s.batch = append(s.batch, <-s.queue)
		}
		if err := s.try(ctx); isTemporary(err) {
			s.count(dropped, len(s.batch)+len(s.queue))
			return err
		}
	}
	return nil
}
