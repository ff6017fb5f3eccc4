package slogprobe

import (
	"io"
	"log/slog"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
)

// BenchmarkLogger measures what a logger costs without the probe, with it, and observed.
func BenchmarkLogger(b *testing.B) {
	p := eventtest.Provider(b, "slogprobe")
	bare := slog.NewTextHandler(io.Discard, nil)
	probed := New(p).Handler(bare)
	measure := func(name string, h slog.Handler) {
		logger := slog.New(h)
		run := func(what string, log func()) {
			b.Run(name+"/"+what, func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					log()
				}
			})
		}
		run("debug", func() { logger.DebugContext(b.Context(), "detail", "id", 1, "name", "x") })
		run("info", func() { logger.InfoContext(b.Context(), "detail", "id", 1, "name", "x") })
		run("with", func() { logger.With("id", 1, "name", "x") })
	}
	measure("bare", bare)
	measure("idle", probed)
	defer p.Observe(func(*stapsdt.Event) {})()
	measure("observed", probed)
}
