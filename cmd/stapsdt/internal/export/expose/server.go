//go:build linux

package expose

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v3"
)

const (
	headerTimeout = 10 * time.Second
	answerTimeout = 30 * time.Second // longer than Prometheus waits by default
	idleTimeout   = 5 * time.Minute  // longer than the time between most scrapes
	closeTimeout  = 5 * time.Second
	maxHeader     = 64 << 10
)

// Server answers HTTP requests.
type Server struct {
	listener net.Listener
	http     *http.Server
	config   string
	log      *slog.Logger
}

// Listen listens on an address such as ":9964". config is a web configuration file, or "". It has
// the format of Prometheus's exporters, with certificates and users.
func Listen(addr, config string, handler http.Handler, log *slog.Logger) (*Server, error) {
	if err := web.Validate(config); err != nil {
		return nil, fmt.Errorf("web configuration %s: %w", config, err)
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Server{listener, &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       answerTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		// such as failed handshakes
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}, config, log}, nil
}

// URL returns the URL for a client on this machine.
func (s *Server) URL() string {
	scheme := "http"
	if hasTLS(s.config) {
		scheme = "https"
	}
	return scheme + "://" + s.listener.Addr().String()
}

// hasTLS reports whether a valid web configuration has a certificate.
func hasTLS(config string) bool {
	text, err := os.ReadFile(config)
	var content struct {
		TLS map[string]any `yaml:"tls_server_config"`
	}
	return err == nil && yaml.Unmarshal(text, &content) == nil && len(content.TLS) > 0
}

// Serve serves until ctx is done. It then gives open requests a few seconds to end.
func (s *Server) Serve(ctx context.Context) error {
	defer s.listener.Close()
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if s.http.Shutdown(late) != nil {
			_ = s.http.Close()
		}
	})
	err := web.Serve(s.listener, s.http, &web.FlagConfig{WebConfigFile: &s.config}, s.log)
	if !stop() {
		<-closed
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// NewHandler returns a handler that serves the metrics at /metrics, /-/healthy, and a page with
// links to them.
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
	// Leave out _created samples, which double the series of counters: the protobuf formats have a
	// field for the time when counting began.
	metrics := promhttp.HandlerForTransactional(m, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, Registry: m.own, EnableOpenMetrics: true,
		OfferedCompressions: []promhttp.Compression{promhttp.Identity, promhttp.Zstd},
	})
	// Prometheus asks for gzip, which takes promhttp several times as long as it takes to make the
	// metrics.
	compressed, err := gzhttp.NewWrapper(
		gzhttp.MinSize(0), gzhttp.CompressionLevel(gzip.BestSpeed),
		gzhttp.ContentTypeFilter(gzhttp.CompressAllContentTypeFilter))
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", page)
	shared := newAnswers(compressed(buffered(metrics)))
	mux.Handle("GET /metrics", promhttp.InstrumentMetricHandler(m.own, shared))
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "healthy\n")
	})
	return mux, nil
}

// bufferSize is the size of the pieces in which metrics, which can have megabytes, are compressed.
const bufferSize = 64 << 10

// bufferedWriter is a ResponseWriter with a buffer, to which Prometheus's encoders write without
// another one.
type bufferedWriter struct {
	http.ResponseWriter
	*bufio.Writer
}

func (w *bufferedWriter) Write(data []byte) (int, error) { return w.Writer.Write(data) }

// buffered returns a handler that passes on the output of next in large pieces.
func buffered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := &bufferedWriter{w, bufio.NewWriterSize(w, bufferSize)}
		next.ServeHTTP(b, r)
		_ = b.Flush() // writing to an answer never fails
	})
}
