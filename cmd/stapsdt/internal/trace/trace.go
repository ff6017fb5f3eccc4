//go:build linux

// Package trace shows a line for each event.
package trace

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/remote"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"

	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Options say what is shown of the events.
type Options struct {
	// JSON is for programs, and not for people.
	JSON bool
	// Limit is the number of events after which the trace ends, or 0 for none.
	Limit uint64
	// Show are the expressions that are shown instead of all arguments, if there are any.
	Show []string
	// TextSize is how many bytes of a text are shown, at most MaxText.
	TextSize int
	// Verbose shows the fields of structs that arguments point to.
	Verbose bool
	// From are the recordings whose events are shown, instead of those of processes. With Follow, what is
	// written to them is shown too, until the run ends.
	From   replay.From
	Follow bool
}

// MaxText is what a program can read of a text without touching a third page.
const MaxText = 4000

// ringSize holds what two threads fire in a tenth of a second.
const ringSize = 16 << 20

// Run shows events until the run ends. The first spec may be the address of a program that shows its
// probes itself.
func Run(ctx context.Context, to *console.Console, config run.Config, o Options) (err error) {
	config.Verbose, config.JSON = o.Verbose, o.JSON
	if o.TextSize < 1 || o.TextSize > MaxText {
		return console.Usagef("--strlen must be between 1 and %d", MaxText)
	}
	if o.Limit == 0 {
		o.Limit = math.MaxUint64
	}
	if o.Show, err = bpf.SplitExprs(o.Show); err != nil {
		return err
	}
	if o.From.Given() {
		return runRecorded(ctx, to, &config, &o)
	}
	if o.Follow {
		return console.Usagef("--follow is for recordings: give --from FILE")
	}
	if len(config.Specs) > 0 && remote.IsAddress(config.Specs[0]) {
		return runRemote(ctx, to, &config, &o)
	}
	feed, err := live.Open(to, &config, o.needs(config.Where))
	if err != nil {
		return err
	}
	if feed != nil {
		defer feed.Close()
		return runLive(ctx, to, feed, &o)
	}
	r, err := run.New(to, config)
	if err != nil {
		return err
	}
	defer r.Close()
	t := &trace{options: &o, run: r, lines: render.Lines{JSON: o.JSON, Color: console.Colored(to.Out), Pods: r.ShowsPods()}}
	if t.Ring, err = r.NewRing(ringSize); err != nil {
		return err
	}
	defer t.Close()
	if err := r.Attach(t); err != nil {
		return err
	}
	r.Announce()
	if err := r.Wait(ctx, t); err != nil {
		return err
	}
	if t.shown < o.Limit {
		if err := t.Drain(t.print); err != nil {
			return err
		}
	}
	return t.report(true)
}

// needs says what a program's own events have to have. Only the kernel reads what an argument points to.
func (o *Options) needs(where string) live.Needs {
	return live.Needs{Where: where, Exprs: o.Show, Check: func(p *recording.Probe) error {
		for _, a := range p.Args {
			if o.Verbose && a.Kind == recording.Pointer {
				return console.Usagef("%s:%s: -v shows what %s points to, which only the kernel reads", p.Provider, p.Name, a.Name)
			}
		}
		return nil
	}}
}

// trace is a trace by the kernel. It is an engine.Subscriber and an engine.Consumer.
type trace struct {
	*run.Ring
	options *Options
	run     *run.Run
	lines   render.Lines
	sources []*render.Source // by the numbers of the programs
	groups  [][]layout.Item  // the items, with that of the control group if pods are shown
	shown   uint64
	lost    uint64          // that were reported
	refused map[string]bool // the reasons that were reported for arguments that are not shown
}

// Section implements engine.Subscriber.
func (t *trace) Section(p *bpf.Probe) (*bpf.Section, error) {
	tr, err := bpf.NewTrace(p, t.run.Where, t.options.Show, t.options.TextSize, t.options.Verbose)
	if err != nil {
		return nil, err
	}
	if len(t.options.Show) == 0 && p.ArgsErr != nil && !t.refused[p.ArgsErr.Error()] {
		if t.refused == nil {
			t.refused = map[string]bool{}
		}
		t.refused[p.ArgsErr.Error()] = true
		t.Problem(fmt.Errorf("%v is shown without arguments: %w", p, p.ArgsErr))
	}
	shown := len(tr.Items)
	if t.lines.Pods && shown < bpf.MaxItems {
		tr.AddCgroup()
	}
	section, err := t.Add(tr)
	if err != nil {
		return nil, err
	}
	source := &render.Source{Provider: p.Provider, Probe: p.Name, Items: tr.Items[:shown]}
	t.groups = append(t.groups, tr.Items)
	t.sources = append(t.sources, source)
	t.lines.Known(source)
	return section, nil
}

// Tick shows the next events.
func (t *trace) Tick() (next time.Duration, more bool, err error) {
	if next, err = t.Take(t.print); err != nil {
		return 0, false, err
	}
	return next, t.shown < t.options.Limit, t.report(false)
}

func (t *trace) print(events []*event.Event) error {
	for _, e := range events {
		if t.shown == t.options.Limit {
			break
		}
		t.lines.EventOf(t.sources[e.ID], e, t.pod(e))
		t.shown++
		if t.lines.Size() > 64<<10 {
			if err := t.lines.Flush(t.run.Out); err != nil {
				return err
			}
		}
	}
	return t.lines.Flush(t.run.Out)
}

// pod returns the pod that has fired, or "".
func (t *trace) pod(e *event.Event) string {
	items, shown := t.groups[e.ID], len(t.sources[e.ID].Items)
	if len(items) == shown {
		return ""
	}
	c := t.run.Container(e.Value(items, shown).Bits)
	return c.Path()
}

// report says how many events were lost since it last did.
func (t *trace) report(last bool) error {
	stats, err := layout.ReadStats(t.run.Env.Stats)
	if err != nil {
		return err
	}
	if lost := stats.Lost - t.lost; lost > 0 {
		t.lost = stats.Lost
		t.run.Warn("%d events were lost, because they came faster than they could be shown", lost)
	}
	if last {
		t.run.Unevaluated(stats)
	}
	return nil
}
