//go:build linux

package expose

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	colmetrics "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	"google.golang.org/protobuf/proto"
)

// OTLP sends metrics and spans by OTLP over HTTP. It obeys the environment variables
// OTEL_EXPORTER_OTLP_…, OTEL_METRIC_EXPORT_INTERVAL and OTEL_RESOURCE_ATTRIBUTES.
type OTLP struct {
	metrics  *Metrics
	client   *client // for the metrics
	own      []*common.KeyValue
	interval time.Duration
	deltas   *deltas // nil for cumulative metrics
	lasting  bool    // the exporter's own metrics are cumulative, whatever deltas is
	spans    *sender

	ctx     context.Context // ends the goroutines
	stop    context.CancelFunc
	running sync.WaitGroup
}

// defaultInterval is the time between two messages with metrics.
const defaultInterval = time.Minute

// parseEndpoint parses an endpoint such as "http://host:4318".
func parseEndpoint(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return nil, errors.New("the endpoint is not a URL such as http://host:4318") // the URL may contain a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, fmt.Errorf("the endpoint %q is not a URL such as http://host:4318", u.Redacted())
	}
	return u, nil
}

// ParseBase parses an endpoint for all signals. It also accepts the URL for one signal.
func ParseBase(endpoint string) (*url.URL, error) {
	u, err := parseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	for _, signal := range []string{"metrics", "traces"} {
		if above, ok := strings.CutSuffix(strings.TrimRight(u.Path, "/"), "/v1/"+signal); ok {
			u.Path, u.RawPath = above, ""
		}
	}
	return u, nil
}

// NewOTLP starts sending metrics to an endpoint. It appends v1/metrics and v1/traces to the path.
// complain is called with each failure. An absent collector is not an error: it receives the counts
// when it is back.
func NewOTLP(
	ctx context.Context, endpoint *url.URL, m *Metrics, complain func(string),
) (o *OTLP, err error) {
	if err := checkVariables(os.Environ(), complain); err != nil {
		return nil, err
	}
	o = &OTLP{metrics: m, own: ownAttributes(ctx), interval: defaultInterval}
	if p := preference(); p != preferCumulative {
		o.deltas, o.lasting = &deltas{map[string]point{}}, p == preferLowMemory
	}
	if text := os.Getenv("OTEL_METRIC_EXPORT_INTERVAL"); text != "" {
		milliseconds, err := strconv.ParseUint(text, 10, 31)
		if err != nil || milliseconds == 0 {
			return nil, fmt.Errorf("OTEL_METRIC_EXPORT_INTERVAL takes milliseconds, not %q", text)
		}
		o.interval = time.Duration(milliseconds) * time.Millisecond
	}
	if o.client, err = newClient(endpoint, "metrics"); err != nil {
		return nil, err
	}
	traces, err := newClient(endpoint, "traces")
	if err != nil {
		return nil, err
	}
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "stapsdt_export_otlp_failures_total",
		Help: "How often sending by OTLP has failed.",
	}, []string{"signal"})
	m.own.MustRegister(failures)
	o.client.failures, o.client.complain = failures.WithLabelValues("metrics"), complain
	traces.failures, traces.complain = failures.WithLabelValues("traces"), complain
	o.ctx, o.stop = context.WithCancel(context.WithoutCancel(ctx))
	o.spans = newSender(o.ctx, traces, m.own)
	o.running.Go(o.run)
	o.running.Go(o.spans.run)
	return o, nil
}

// Span queues a span. It never blocks: it counts a span for which there is no room.
func (o *OTLP) Span(s Span) { o.spans.add(s) }

// run sends the metrics at intervals. After a temporary failure, it sends newer numbers, so that no
// message waits.
func (o *OTLP) run() {
	delays, pause := backoff{first: firstDelay}, o.interval
	for {
		select {
		case <-time.After(pause):
		case <-o.ctx.Done():
			return
		}
		again := false
		if pause, again = delays.next(o.sendMetrics(o.ctx)); !again {
			pause = o.interval
		}
	}
}

// sendMetrics sends the metrics once, in parts if the collector takes only smaller messages.
func (o *OTLP) sendMetrics(ctx context.Context) error {
	var errs []error
	for all := o.all(time.Now()); len(all) > 0; {
		n, message := o.client.fit(len(all), func(n int) proto.Message {
			return &colmetrics.ExportMetricsServiceRequest{ResourceMetrics: byResource(all[:n])}
		})
		var answer colmetrics.ExportMetricsServiceResponse
		err := o.client.send(ctx, message, &answer)
		switch {
		case isTemporary(err):
			return err
		case errors.Is(err, errSize) && n > 1:
			continue
		case errors.Is(err, errSize):
			o.client.complain(fmt.Sprintf("OTLP: the metric %s is left out, because it is too large for the collector", all[0].metric.Name))
		case err == nil:
			if o.deltas != nil {
				o.deltas.accept(all[:n])
			}
			partial := answer.GetPartialSuccess()
			o.client.partly(partial.GetRejectedDataPoints(), "data points", partial.GetErrorMessage())
		}
		errs, all = append(errs, err), all[n:]
	}
	return errors.Join(errs...)
}

// measured is a metric and its resource: the exporter, or a container.
type measured struct {
	of     *resource.Resource
	metric *metrics.Metric
	// whole has the cumulative points of a delta, by their keys, and is nil for other metrics.
	whole map[string]point
}

// all returns the metrics, those of a resource one after another.
func (o *OTLP) all(now time.Time) (all []measured) {
	add := func(of *resource.Resource, families []*dto.MetricFamily) {
		for _, f := range families {
			all = append(all, measured{of: of, metric: convertMetric(f, nanoseconds(now))})
		}
	}
	rest, of := divide(o.metrics.collect())
	for c, families := range of {
		attributes := inContainer(o.own, &c)
		add(&resource.Resource{Attributes: attributes}, o.metrics.convert(&page{}, families))
	}
	exporter := &resource.Resource{Attributes: o.own}
	add(exporter, o.metrics.convert(&page{}, rest))
	if o.lasting {
		all = o.deltas.apply(all)
	}
	add(exporter, o.metrics.withOwn(nil))
	if o.deltas != nil && !o.lasting {
		all = o.deltas.apply(all)
	}
	return all
}

// byResource groups metrics by their resources.
func byResource(some []measured) (all []*metrics.ResourceMetrics) {
	for i, m := range some {
		if i == 0 || m.of != some[i-1].of {
			of := []*metrics.ScopeMetrics{{Scope: &common.InstrumentationScope{Name: scope}}}
			all = append(all, &metrics.ResourceMetrics{Resource: m.of, ScopeMetrics: of})
		}
		of := all[len(all)-1].ScopeMetrics[0]
		of.Metrics = append(of.Metrics, m.metric)
	}
	return all
}

// Shutdown stops the goroutines, and sends the remaining metrics and spans. It must be called only
// once.
func (o *OTLP) Shutdown(ctx context.Context) error {
	o.stop()
	o.running.Wait()
	spans := make(chan error, 1)
	go func() { spans <- o.spans.flush(ctx) }()
	return errors.Join(o.sendMetrics(ctx), <-spans)
}
