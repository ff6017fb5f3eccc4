// Package top shows which operations are running and how long they take, on a screen that is
// refreshed.
package top

import (
	"context"
	"errors"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/source"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/tree"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Options select what is shown.
type Options struct {
	// By are expressions whose values divide the operations of a name.
	By []string
	// Key has lists of expressions that pair the events of operations, in place of their first
	// arguments.
	Key []string
	// Screens is the number of screens after which the run ends, or 0 for none.
	Screens int
	// Interval is the time between two screens.
	Interval time.Duration
	// From names the recordings or the page to read instead of processes.
	From replay.From

	functions bool // whether functions are shown in place of operations
}

// view makes snapshots of the operations. It is an events.Consumer.
type view struct {
	table    *table
	stream   *events.Stream
	interval *query.Interval
	last     time.Duration // the time of the last event, by the stream's clock
	lastAt   time.Time
	opened   time.Time // the beginning of the times by which the table counts
	show     func(*snapshot) error
	left     int // remaining screens; negative if there is no limit
}

// Run shows operations until the run ends. The specs of the configuration are names of operations,
// PROVIDER:NAME.
func Run(ctx context.Context, to *console.Console, config query.Config, o Options) (err error) {
	if o.Screens < 0 {
		return query.Usagef("-n %d is negative", o.Screens)
	}
	if o.Interval <= 0 {
		return query.Usagef("the interval must be positive, not %v", o.Interval)
	}
	if o.By, err = query.SplitExprs(o.By); err != nil {
		return err
	}
	if o.functions, err = events.Functions(config.Specs); err != nil {
		return err
	}
	ofPods := !o.functions && !o.From.Given() && (config.All || len(config.Pods) > 0)
	if len(o.By) == 0 && ofPods && source.Pods() {
		o.By = []string{"namespace", "pod"}
	}
	if len(o.From.Paths) > 0 || config.Format != query.Text || o.Screens > 0 {
		return runPlain(ctx, to, config, &o)
	}
	s := openScreen(to, "/dev/tty")
	if s == nil {
		return runPlain(ctx, to, config, &o)
	}
	if o.functions {
		s.state.columns, s.state.sort = functionColumns, defaultFunctionColumn
		return s.run(ctx, func(ctx context.Context, to *console.Console) error {
			return runFunctions(ctx, to, config, &o, s.take)
		})
	}
	return s.run(ctx, func(ctx context.Context, to *console.Console) error {
		v, err := newView(to, config, &o)
		if err != nil {
			return err
		}
		defer v.stream.Close()
		v.show, v.left, v.table.parts = s.take, -1, tree.NewParts()
		if err := v.run(ctx); err != nil {
			return err
		}
		err = v.stream.Report(events.Unended, 0)
		v.stream.Past.Report(to)
		return err
	})
}

// newView opens the stream.
func newView(to *console.Console, config query.Config, o *Options) (v *view, err error) {
	plan, err := events.NewPlan(config, o.By, o.Key)
	if err != nil {
		return nil, err
	}
	v = &view{table: newTable(plan.Operations()), opened: time.Now()}
	if v.stream, err = source.Open(to, &plan.Config, plan.Options(o.From)); err != nil {
		return nil, err
	}
	if v.interval, err = query.NewInterval(o.Interval); err != nil {
		v.stream.Close()
	}
	return v, err
}

// now returns the time for the slots of a live stream. The clock of the stream may be another
// machine's. It is not 0.
func (v *view) now() time.Duration { return 1 + time.Since(v.opened) }

// run takes the events.
func (v *view) run(ctx context.Context) error {
	if v.stream.Live {
		v.table.began[0] = v.now()
	}
	return v.stream.Run(ctx, v)
}

func (v *view) Event(e *events.Event) error {
	if e.File.InPast() {
		v.table.add(e.Event, e.File)
		return nil
	}
	v.lastAt = events.At(e.Event)
	if v.last = v.stream.Clock(e.Event); v.table.began[v.table.slot] == 0 {
		v.table.began[v.table.slot] = v.last
	}
	if !v.stream.Live {
		v.table.turnTo(v.last)
	}
	v.table.add(e.Event, e.File)
	return nil
}

func (v *view) Know(p *recording.Probe) { v.table.operations.Know(p) }

func (v *view) Gone(f *replay.File) { v.table.gone(f) }

func (v *view) Tick() (next time.Duration, more bool, err error) {
	if !v.stream.Live {
		return 0, false, nil
	}
	due, next := v.interval.Due()
	if !due {
		return next, true, nil
	}
	if err := v.show(v.snapshot()); err != nil {
		return 0, false, err
	}
	v.table.turn(v.now())
	v.left--
	return next, v.left != 0, nil
}

// snapshot returns the snapshot for now, or for the end of a recording.
func (v *view) snapshot() *snapshot {
	at, now := v.lastAt, v.last
	if v.stream.Live {
		at, now = v.stream.Until(), v.now()
	}
	s := v.table.snapshot(at, now, !v.stream.Live)
	s.lost, s.past = v.stream.Lost(), v.stream.Past.Copy()
	return s
}

// runPlain shows one screen after another, without keys.
func runPlain(ctx context.Context, to *console.Console, config query.Config, o *Options) error {
	screen := console.Screen{Console: to}
	show := func(s *snapshot, last bool) error {
		if config.Format.IsJSON() {
			return s.encode(to.Out)
		}
		return screen.Show(s.text(console.Columns(to.Out)), last)
	}
	if o.functions {
		return runFunctions(ctx, to, config, o, func(s *snapshot) error { return show(s, s.last) })
	}
	v, err := newView(to, config, o)
	if err != nil {
		return err
	}
	defer v.stream.Close()
	if v.left = o.Screens; v.left == 0 {
		v.left = -1
	}
	v.show = func(s *snapshot) error { return show(s, v.left == 1) }
	v.stream.Announce()
	if err := v.run(ctx); err != nil && !errors.Is(err, replay.ErrEnough) {
		return err
	}
	if v.left != 0 {
		if err := show(v.snapshot(), true); err != nil {
			return err
		}
	}
	err = v.stream.Report(events.Unended, 0)
	v.table.operations.Report(to)
	v.stream.Past.Report(to)
	return err
}
