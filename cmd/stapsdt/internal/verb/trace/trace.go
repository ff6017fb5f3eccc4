// Package trace shows a line for each event.
package trace

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/source"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Options select the events and the output.
type Options struct {
	// Limit is the number of events after which the trace ends, or 0 for none.
	Limit uint64
	// Show are expressions whose values are shown instead of all arguments, if there are any.
	Show []string
	// TextSize is the number of bytes of a string that are shown, at most MaxText.
	TextSize int
	// Verbose shows the fields of structs that arguments point to.
	Verbose bool
	// Stack shows the stack from which each event was fired.
	Stack bool
	// From names the recordings or the page whose events are shown instead of the events of
	// processes.
	From replay.From
}

// MaxText is the number of bytes of a string that a program can read without touching a third page.
const MaxText = 4000

// Run shows events until the run ends.
func Run(ctx context.Context, to *console.Console, config query.Config, o Options) (err error) {
	config.Verbose = o.Verbose
	if o.TextSize < 1 || o.TextSize > MaxText {
		return query.Usagef("--strlen must be between 1 and %d", MaxText)
	}
	if o.Limit == 0 {
		o.Limit = math.MaxUint64
	}
	if o.Show, err = query.SplitExprs(o.Show); err != nil {
		return err
	}
	if o.Stack {
		if config.Kernel = "--stack"; o.From.Given() {
			return query.Usagef("--stack needs the kernel, which walks the stacks of processes")
		}
	}
	t := &trace{Console: to, options: &o, json: config.Format == query.JSON}
	isFunction := func(c spec.Choice) bool { return c.Functions }
	goroutines := !o.From.Given() && slices.ContainsFunc(config.Specs, isFunction)
	t.stream, err = source.Open(to, &config, events.Options{
		From: o.From, Goroutines: goroutines, Stacks: o.Stack,
		Needs: replay.Needs{Exprs: o.Show, Starts: true, Pointers: o.Verbose},
		Show:  &events.Show{Exprs: o.Show, TextSize: o.TextSize, Verbose: o.Verbose},
	})
	if err != nil {
		return err
	}
	defer t.stream.Close()
	style := render.Style{
		Color: console.Colored(to.Out), Terminal: console.IsTerminal(to.Out), Pods: t.stream.Pods,
		Open: t.stream.Target.All || len(t.stream.Target.Pods) > 0 || config.Awaits() ||
			o.From.Follow || o.From.Replicas != nil,
		Shown: o.Show, Warn: to.Warn, Goroutines: goroutines, Stacks: o.Stack,
	}
	t.printer = render.NewPrinter(config.Format, style)
	t.stream.Announce()
	if err := t.stream.Run(ctx, t); err != nil {
		return err
	}
	return t.report()
}

// trace is an events.Consumer.
type trace struct {
	*console.Console
	options *Options
	stream  *events.Stream
	printer render.Printer
	shown   uint64
	lost    uint64 // events that were reported, or shown where they are missing
	warned  time.Time
	json    bool
}

func (t *trace) Know(p *recording.Probe) { t.printer.Know(p) }

func (t *trace) Gone(*replay.File) {}

func (t *trace) Event(e *events.Event) error {
	if e.Missing > 0 && !t.stream.Live {
		t.lost += e.Missing
		t.printer.Lost(events.At(e.Event), e.Missing)
	}
	if e.Stack != nil {
		t.printer.Stack(e.Stack)
	}
	t.printer.Event(e.Shown, e.Comm(), e.Event)
	if t.shown++; t.shown == t.options.Limit {
		return replay.ErrEnough
	}
	if t.printer.Size() > 64<<10 {
		return t.printer.Flush(t.Out)
	}
	return nil
}

func (t *trace) Tick() (next time.Duration, more bool, err error) {
	if t.stream.Live {
		t.warnLost()
	}
	return query.Rest, true, t.printer.Flush(t.Out)
}

// warnLost warns of the events that were lost since its last look, once a second.
func (t *trace) warnLost() {
	if time.Since(t.warned) < time.Second {
		return
	}
	t.warned = time.Now()
	if lost := t.stream.Lost(); lost > t.lost {
		t.stream.WarnLost(t.Console, lost-t.lost)
		t.lost = lost
	}
}

// report prints the remaining events, and warns of missing ones.
func (t *trace) report() error {
	left := t.stream.Lost()
	if !t.stream.Live {
		left -= t.lost
	}
	t.printer.End(left)
	if err := t.printer.Flush(t.Out); err != nil {
		return err
	}
	if t.json {
		if err := t.stream.Losses().PodLosses.Encode(t.Out); err != nil {
			return err
		}
	}
	return t.stream.Report("not all events are shown", t.lost)
}
