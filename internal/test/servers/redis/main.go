// Command redis is miniredis, a server in Go that speaks to clients of Redis. Its argument is an address to listen on.
package main

import (
	"context"
	"log"
	"log/slog"
	"os"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/servers/way"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

var command = stapsdt.NewProbe2[string, string](way.App, "command", "name", "key")

func main() {
	redis := miniredis.NewMiniRedis()
	if err := redis.StartAddr(os.Args[1]); err != nil {
		log.Fatal(err)
	}
	if h := hook(); h != nil {
		redis.Server().SetPreHook(h)
	}
	select {}
}

// hook returns what is called before each command.
func hook() server.Hook {
	var report func(name, key string)
	switch way.Get() {
	case way.Probes:
		report = command.Fire
	case way.Otel:
		tracer := way.Tracers().Tracer("redis")
		report = func(name, key string) {
			_, span := tracer.Start(context.Background(), name, trace.WithAttributes(attribute.String("key", key)))
			span.End()
		}
	case way.Slog:
		to := way.Logger()
		report = func(name, key string) {
			to.LogAttrs(context.Background(), slog.LevelInfo, "command", slog.String("name", name), slog.String("key", key))
		}
	default:
		return nil
	}
	return func(_ *server.Peer, name string, args ...string) bool {
		key := ""
		if len(args) > 0 {
			key = args[0]
		}
		report(name, key)
		return false
	}
}
