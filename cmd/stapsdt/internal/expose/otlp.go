//go:build linux

package expose

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// OTLP sends metrics and spans by OTLP over HTTP. The environment variables OTEL_EXPORTER_OTLP_…
// for headers, certificates, timeouts and compression are in force, as are
// OTEL_METRIC_EXPORT_INTERVAL and OTEL_RESOURCE_ATTRIBUTES.
type OTLP struct {
	metrics *sdk.MeterProvider
	spans   *sender
}

// CheckEndpoint returns an error if an endpoint is not one for NewOTLP.
func CheckEndpoint(endpoint string) error {
	_, err := parseEndpoint(endpoint)
	return err
}

func parseEndpoint(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return nil, errors.New("the endpoint is not a URL such as http://host:4318") // it may have a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, fmt.Errorf("the endpoint %q is not a URL such as http://host:4318", u.Redacted())
	}
	return u, nil
}

// NewOTLP begins to send metrics to an endpoint such as "http://host:4318", to whose path
// v1/metrics and v1/traces are added. Failures are logged, and OpenTelemetry's global error
// handler does so too from now on. A collector that is gone is no error: what has been counted is
// sent when it is back.
func NewOTLP(ctx context.Context, endpoint string, m *Metrics, log *slog.Logger) (*OTLP, error) {
	u, err := parseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	otel.SetErrorHandler(&complaints{log: log, last: map[string]time.Time{}})
	exporter, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(u.JoinPath("v1/metrics").String()),
		otlpmetrichttp.WithTemporalitySelector(sdk.DefaultTemporalitySelector))
	if err != nil {
		return nil, err
	}
	// The retries of the client are for a collector that asks for them; sender has its own.
	client := otlptracehttp.NewClient(otlptracehttp.WithEndpointURL(u.JoinPath("v1/traces").String()),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: firstDelay, MaxInterval: maxDelay}))
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "stapsdt_export_otlp_failures_total",
		Help: "How often sending by OTLP has failed.",
	}, []string{"signal"})
	m.own.MustRegister(failures)
	produced := &producer{Metrics: m}
	all := &containerExporter{exporter, produced}
	reader := sdk.NewPeriodicReader(&countingExporter{all, failures.WithLabelValues("metrics")}, sdk.WithProducer(produced))
	o := &OTLP{
		metrics: sdk.NewMeterProvider(sdk.WithReader(reader), sdk.WithResource(ownResource(ctx))),
		spans:   newSender(client, m.own, failures.WithLabelValues("traces")),
	}
	go o.spans.run()
	return o, nil
}

// Span sends a span later. It never blocks: a span for which there is no room is counted.
func (o *OTLP) Span(s Span) { o.spans.add(s) }

// Shutdown sends what has not been sent, and ends the sending. It is called once.
func (o *OTLP) Shutdown(ctx context.Context) error {
	spans := make(chan error, 1)
	go func() { spans <- o.spans.shutdown(ctx) }()
	return errors.Join(o.metrics.Shutdown(ctx), <-spans)
}

// countingExporter is an exporter whose failures are counted.
type countingExporter struct {
	sdk.Exporter
	failures prometheus.Counter
}

func (c *countingExporter) Export(ctx context.Context, metrics *metricdata.ResourceMetrics) error {
	err := c.Exporter.Export(ctx, metrics)
	if err != nil && !errors.Is(err, context.Canceled) { // Shutdown sends again
		if lost, partly := rejected(err); !partly || lost > 0 {
			c.failures.Inc()
		}
	}
	return err
}

// complaints logs errors, but the same one again only after a while: a collector may be gone for
// long.
type complaints struct {
	log *slog.Logger

	mu   sync.Mutex
	last map[string]time.Time // by the texts
}

const (
	silence  = 10 * time.Minute // how long an error is not logged again
	maxTexts = 64               // how many errors are remembered
)

// Handle logs an error.
func (c *complaints) Handle(err error) {
	if errors.Is(err, context.Canceled) {
		return // what Shutdown has interrupted, it does again
	}
	text := err.Error()
	c.mu.Lock()
	defer c.mu.Unlock()
	if last, logged := c.last[text]; logged && time.Since(last) < silence {
		return
	}
	if len(c.last) >= maxTexts {
		clear(c.last)
	}
	c.last[text] = time.Now()
	c.log.Warn("OTLP: " + text)
}
