//go:build linux

package source

import (
	"context"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/paired"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/socket"
	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// feed is a Source: the events of programs that listen.
type feed struct {
	*live.Feed
	show  *events.Show
	ends  *paired.Ends
	pasts pasts
}

// openFeed opens a stream of programs that listen. alone means that the kernel cannot deliver the
// events instead.
func openFeed(
	to *console.Console, config *query.Config, o *events.Options, alone bool,
) (*events.Stream, error) {
	began := clock.Now()
	now, err := probes.Now(&config.Target)
	if err != nil {
		return nil, err
	}
	asked := *config
	asked.Target = now
	f := &feed{show: o.Show}
	o.Needs.Pairing = paired.Of(&o.Needs, config.Where)
	if f.Feed, err = live.Open(to, &asked, o.Needs, alone); err != nil {
		return nil, err
	}
	f.ends = paired.New(f.Reader)
	f.pasts = newPasts(f, config, o, began)
	return &events.Stream{
		Source: f, Live: true, Target: now, Why: events.TooFast, Past: f.pasts.Past,
	}, nil
}

func (f *feed) Run(ctx context.Context, c events.Consumer) error {
	for _, p := range f.Probes() { // the probes of programs that are already connected
		c.Know(p)
	}
	f.Came = func(all []*recording.Probe) {
		for _, p := range all {
			if f.Selects(p.Provider, p.Name) {
				c.Know(f.Complete(p, all))
			}
		}
	}
	if t, ok := c.(events.Taker); ok && !f.Pairs() {
		f.Taker = t.Taker
	}
	if copier, ok := c.(events.Copier); ok {
		f.Copy = func(file *replay.File) error { return copier.Copy(file, f.Reader) }
	}
	d := &events.Delivery{Consumer: c, Show: f.show, Ends: f.ends}
	f.Gone = d.Gone
	if f.pasts.Asked() {
		f.Joined = func(p *socket.Process, file *replay.File, since time.Duration) error {
			if p.Elsewhere {
				f.pasts.Unknown()
				return nil
			}
			return f.pasts.deliver(since, p.PID, file, c)
		}
	}
	return f.Feed.Run(ctx, d)
}

func (f *feed) Report(consequence string, reported uint64) error {
	events.WarnLost(f.Console, f.Lost()-reported, events.TooFast, consequence)
	f.ends.Report(f.Console)
	evaluate.Unevaluated(f.Console, f.Faults)
	return f.ReportEnd()
}

func (f *feed) Until() time.Time { return time.Now() }

func (f *feed) Losses() replay.Losses { return replay.Losses{Lost: f.Lost()} }
