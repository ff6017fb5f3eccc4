//go:build linux

package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/slogprobe"
)

// logs are records, which are in flight while a handler takes them.
type logs struct{ logger *slog.Logger }

func newLogs(p *stapsdt.Provider) operations {
	return logs{slog.New(slogprobe.New(p).Handler(sink{}))}
}

func (l logs) begin(n int) (operation, error) {
	return callOf(func(ctx context.Context) error {
		var taken int
		ctx = context.WithValue(ctx, takenKey{}, &taken)
		l.logger.DebugContext(ctx, "unwanted", "n", n)
		l.logger.With("n", n).InfoContext(ctx, "taken", "item", n+1)
		return differs(n+1, taken)
	})
}

type takenKey struct{}

// sink is a handler that takes records of level Info.
type sink struct{}

func (s sink) WithAttrs([]slog.Attr) slog.Handler { return s }
func (s sink) WithGroup(string) slog.Handler      { return s }

func (s sink) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (s sink) Handle(ctx context.Context, r slog.Record) error {
	if r.Message != "taken" {
		return errors.New("an unwanted record")
	}
	callIn(ctx).stay()
	var err error
	r.Attrs(func(a slog.Attr) bool {
		err = errors.Join(look("context of a record", ctx), look("value of a record", a.Value.Any()))
		*ctx.Value(takenKey{}).(*int) = int(a.Value.Int64())
		return true
	})
	return err
}
