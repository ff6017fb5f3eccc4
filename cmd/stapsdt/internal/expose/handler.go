//go:build linux

package expose

import (
	"io"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/exporter-toolkit/web"
)

// maxScrapes is the maximum number of simultaneous scrapes. Further ones get the status 503.
const maxScrapes = 4

// NewHandler returns a handler that serves the metrics at /metrics, /-/healthy, and a page with links to them.
func NewHandler(m *Metrics) (http.Handler, error) {
	page, err := web.NewLandingPage(web.LandingConfig{
		Name:        "stapsdt export",
		Description: "Metrics of SDT probes",
		Profiling:   "false",
		Links: []web.LandingLinks{
			{Address: "metrics", Text: "Metrics", Description: "for Prometheus"},
			{Address: "-/healthy", Text: "Healthy", Description: "answers with the status 200 while the exporter runs"},
		},
	})
	if err != nil {
		return nil, err
	}
	// Leave out _created samples, which double the series of counters: the protobuf formats have a field for the time when
	// counting began.
	metrics := promhttp.HandlerFor(m, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, Registry: m.own, MaxRequestsInFlight: maxScrapes, EnableOpenMetrics: true,
	})
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", page)
	mux.Handle("GET /metrics", promhttp.InstrumentMetricHandler(m.own, metrics))
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "healthy\n")
	})
	return mux, nil
}
