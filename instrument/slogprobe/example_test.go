package slogprobe_test

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/slogprobe"
)

func Example() {
	shop := stapsdt.NewProvider("shop")
	defer shop.Close()
	logs := slogprobe.New(shop)
	// A program loads the provider here, or all providers: see package probeenv.

	// The program writes only records from this level on.
	options := &slog.HandlerOptions{Level: slog.LevelWarn}
	logger := slog.New(logs.Handler(slog.NewTextHandler(os.Stderr, options)))

	// An observer stands in for a tracer.
	stop := shop.Observe(func(e *stapsdt.Event) {
		level := slog.Level(e.ArgByName("level").Int64())
		fmt.Println(level, e.ArgByName("message"), e.ArgByName("attributes"))
	})
	defer stop()
	logger.Info("order", "item", "tea", "count", 3)
	logger.WithGroup("supplier").Debug("ask", "item", "coffee")
	// Output:
	// INFO order item=tea count=3
	// DEBUG ask supplier.item=coffee
}
