// Package way is what the servers have in common: how each is instrumented, which a variable says, and what OpenTelemetry
// and log/slog do with what they get.
package way

import (
	"context"
	"log"
	"log/slog"
	"os"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/probeenv"

	"go.opentelemetry.io/otel/sdk/trace"
)

// The ways in which a server is instrumented.
const (
	Probes = "probes"
	Otel   = "otel"
	Slog   = "slog"
	None   = "none"
)

// App is the provider of a server's probes.
var App = stapsdt.NewProvider("app")

// Get returns the way that the environment asks for, and loads the probes if they are.
func Get() string {
	w := os.Getenv("WAY")
	if w == Probes {
		if err := probeenv.Load(); err != nil {
			log.Fatal(err)
		}
	}
	return w
}

// Tracers makes spans that are sampled, collected in batches as in production, and then discarded.
func Tracers() *trace.TracerProvider { return trace.NewTracerProvider(trace.WithBatcher(discard{})) }

type discard struct{}

func (discard) ExportSpans(context.Context, []trace.ReadOnlySpan) error { return nil }
func (discard) Shutdown(context.Context) error                          { return nil }

// Logger writes JSON to the file that the environment names. As slog does, it writes each line at once.
func Logger() *slog.Logger {
	file, err := os.Create(os.Getenv("LOG"))
	if err != nil {
		log.Fatal(err)
	}
	return slog.New(slog.NewJSONHandler(file, nil))
}
