//go:build linux

package source

import (
	"context"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// feed is a Source: the events of programs that listen.
type feed struct {
	*live.Feed
	show *events.Show
}

func (f *feed) Run(ctx context.Context, c events.Consumer) error {
	for _, p := range f.Probes() { // the probes of programs that are already connected
		c.Know(p)
	}
	f.Came = func(all []*recording.Probe) {
		for _, p := range all {
			if f.Selects(p.Provider, p.Name) {
				c.Know(p)
			}
		}
	}
	if t, ok := c.(events.Taker); ok {
		f.Taker = t.Taker
	}
	if copier, ok := c.(events.Copier); ok {
		f.Copy = func(file *replay.File) error { return copier.Copy(file, f.Reader) }
	}
	d := &events.Delivery{Consumer: c, Show: f.show}
	f.Gone = d.Gone
	return f.Feed.Run(ctx, d)
}

func (f *feed) Report(consequence string, reported uint64) error {
	events.WarnLost(f.Console, f.Lost()-reported, events.TooFast, consequence)
	replay.Unevaluated(f.Console, f.Faults)
	f.ReportExited()
	return nil
}

func (f *feed) Losses() replay.Losses { return replay.Losses{Lost: f.Lost()} }
