package events

import (
	"context"
	"errors"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/paired"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

const (
	// A recording is read again after shortestRest if it had new events, and after at most
	// longestRest if it had none.
	shortestRest = time.Millisecond
	longestRest  = 50 * time.Millisecond
	// perTick is the maximum number of events that are delivered between two ticks.
	perTick = 64 << 10
)

// files are recordings, as a Source.
type files struct {
	*replay.Reader
	to     *console.Console
	config *query.Config
	follow bool
	show   *Show
	ends   *paired.Ends
}

// openFiles opens recordings.
func openFiles(to *console.Console, config *query.Config, o *Options) (f *files, err error) {
	if config.Given() || config.Single || config.Via != "" || config.Budget > 0 || config.Await ||
		config.Duration != 0 && !o.From.Follow ||
		o.Show != nil && o.Show.Verbose {
		return nil, query.Usagef("--from cannot be combined with -p, -a, -v, --via, --wait or --budget; -d needs --follow")
	}
	if err := config.CheckDuration(); err != nil {
		return nil, err
	}
	f = &files{to: to, config: config, follow: o.From.Follow, show: o.Show}
	if f.Reader, err = replay.New(config.Specs, config.Where, o.Needs.Unfit); err != nil {
		return nil, err
	}
	f.Pairing = o.Needs.Pairing
	if err := f.Open(o.From); err != nil {
		return nil, err
	}
	f.ends = paired.New(f.Reader)
	if err := o.Needs.Check(f.Probes()); err != nil {
		f.Close()
		return nil, err
	}
	to.WarnMissing(f.config, "no recording has", replay.Names(f.Known()))
	f.Begin(to)
	return f, nil
}

func (f *files) Announce() {}

func (f *files) Until() time.Time { return time.Now() }

func (f *files) Report(consequence string, _ uint64) error {
	f.Reader.Report(f.to, consequence)
	f.ends.Report(f.to)
	evaluate.Unevaluated(f.to, f.Faults)
	return nil
}

func (f *files) Run(ctx context.Context, c Consumer) error {
	ctx, cancel := f.config.WithDuration(ctx)
	defer cancel()
	for _, p := range f.Probes() {
		c.Know(p)
	}
	if t, ok := c.(Taker); ok && !f.Pairs() {
		f.Taker = t.Taker
	}
	d := &Delivery{Consumer: c, Show: f.show, Ends: f.ends}
	for wait := shortestRest; ; {
		last := f.follow && ctx.Err() != nil // deliver all that was written until now
		now, at := clock.Now(), time.Now()
		found, err := f.deliver(ctx, d, last)
		if errors.Is(err, replay.ErrEnough) {
			return nil
		}
		if err != nil {
			return err
		}
		if last || !f.follow {
			f.Reach(now, at)
		}
		next, more, err := c.Tick()
		if err != nil || !more || last || !f.follow {
			return err
		}
		if wait = min(2*wait, longestRest); found {
			wait = shortestRest
		} else if gone := f.Follow(f.to); gone != nil {
			for _, file := range gone {
				d.Gone(file)
			}
			for _, p := range f.Probes() {
				c.Know(p)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(wait, next)):
		}
	}
}

// deliver delivers the events that were written until now, and reports whether there were any.
// Unless whole is true, it ends when ctx is done.
func (f *files) deliver(ctx context.Context, d *Delivery, whole bool) (found bool, err error) {
	found, err = f.More()
	if err != nil || !found {
		return found, err
	}
	if whole {
		ctx = context.Background()
	}
	tick := func() error {
		_, more, err := d.Tick()
		if err == nil && !more {
			err = replay.ErrEnough
		}
		return err
	}
	if f.follow {
		f.Between = tick
	}
	n := 0
	_, err = f.Each(ctx, func(e *recording.Event, file *replay.File) error {
		if err := d.Event(e, file); err != nil || !f.follow {
			return err
		}
		if n++; n%perTick != 0 {
			return nil
		}
		return tick()
	})
	return true, err
}
