//go:build linux

package events

import (
	"context"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// feed delivers the events of programs that listen.
type feed struct {
	*live.Feed
	show *Show
}

// Run implements Source.
func (f *feed) Run(ctx context.Context, c Consumer) error {
	for _, p := range f.Probes() { // the probes of programs that Open already watches
		c.Know(p)
	}
	f.Came = func(all []*recording.Probe) {
		for _, p := range all {
			if f.Selects(p.Provider, p.Name) {
				c.Know(p)
			}
		}
	}
	d := &delivery{Consumer: c, show: f.show}
	f.Gone = func(file *replay.File) {
		for _, p := range file.Recorded() {
			delete(d.known, p)
		}
		c.Gone(file)
	}
	return f.Feed.Run(ctx, d)
}

// Report implements Source.
func (f *feed) Report(consequence string, reported uint64) error {
	warnLost(f.Console, f.Lost()-reported, tooFast, consequence)
	replay.Unevaluated(f.Console, f.Faults)
	return nil
}

// Losses implements Source.
func (f *feed) Losses() replay.Losses { return replay.Losses{Lost: f.Lost()} }
