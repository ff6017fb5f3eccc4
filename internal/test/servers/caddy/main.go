// Command caddy is Caddy with two handlers more: one is httpprobe's, and one logs requests with log/slog. Caddy's own
// handler for OpenTelemetry is otelhttp's.
package main

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/go-stapsdt/stapsdt/instrument/httpprobe"
	"github.com/go-stapsdt/stapsdt/internal/test/servers/way"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

var requests = httpprobe.NewServer(way.App)

func main() {
	caddy.RegisterModule(probes{})
	caddy.RegisterModule(logs{})
	caddycmd.Main()
}

type probes struct{}

func (probes) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.probes", New: func() caddy.Module { return new(probes) }}
}

func (probes) Provision(caddy.Context) error { way.Get(); return nil }

func (probes) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) (err error) {
	requests.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err = next.ServeHTTP(w, r)
	})).ServeHTTP(w, r)
	return err
}

type logs struct{ to *slog.Logger }

func (logs) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.slog", New: func() caddy.Module { return new(logs) }}
}

func (l *logs) Provision(caddy.Context) error { l.to = way.Logger(); return nil }

func (l *logs) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	start := time.Now()
	recorder := caddyhttp.NewResponseRecorder(w, nil, nil) // as Caddy's own access log does
	err := next.ServeHTTP(recorder, r)
	l.to.LogAttrs(r.Context(), slog.LevelInfo, "request",
		slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.String("host", r.Host),
		slog.String("remote", r.RemoteAddr), slog.Int("status", recorder.Status()),
		slog.Int("bytes", recorder.Size()), slog.Duration("nanoseconds", time.Since(start)))
	return err
}
