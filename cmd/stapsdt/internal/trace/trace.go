//go:build linux

// Package trace shows a line for each event.
package trace

import (
	"context"
	"math"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/record"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/remote"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/usage"

	"github.com/cilium/ebpf"
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
	From   []string
	Follow bool
}

// MaxText is what a program can read of a text without touching a third page.
const MaxText = 4000

// ringSize holds what two threads fire in a tenth of a second.
const ringSize = 16 << 20

// Run shows events until the run ends. The first spec may be the address of a program that shows its
// probes itself.
func Run(ctx context.Context, to *console.Console, config run.Config, o Options) (err error) {
	if o.TextSize < 1 || o.TextSize > MaxText {
		return usage.Errorf("--strlen must be between 1 and %d", MaxText)
	}
	if o.Limit == 0 {
		o.Limit = math.MaxUint64
	}
	if o.Show, err = bpf.SplitExprs(o.Show); err != nil {
		return err
	}
	if len(o.From) > 0 {
		return runRecorded(ctx, to, &config, &o)
	}
	if o.Follow {
		return usage.Errorf("--follow is for recordings: give --from FILE")
	}
	if len(config.Specs) > 0 && remote.IsAddress(config.Specs[0]) {
		return runRemote(ctx, to, &config, &o)
	}
	r, err := run.New(to, config)
	if err != nil {
		return err
	}
	defer r.Close()
	t := &trace{options: &o, run: r, lines: render.Lines{JSON: o.JSON, Color: console.Colored(to.Out), Boot: event.Boot()}}
	if err := t.open(); err != nil {
		return err
	}
	defer t.close()
	if err := r.Attach(t); err != nil {
		return err
	}
	if err := r.Wait(ctx, t); err != nil {
		return err
	}
	if t.shown < o.Limit {
		if err := t.drain(); err != nil {
			return err
		}
	}
	return t.report(true)
}

// trace is a trace by the kernel. It is an engine.Subscriber and an engine.Consumer.
type trace struct {
	options *Options
	run     *run.Run
	ring    *ebpf.Map
	stream  *event.Stream
	lines   render.Lines
	sources []*render.Source // by the numbers of the probes
	sizes   []int
	shown   uint64
	lost    uint64 // that were reported
}

func (t *trace) open() (err error) {
	if t.ring, err = ebpf.NewMap(&ebpf.MapSpec{Name: "events", Type: ebpf.RingBuf, MaxEntries: ringSize}); err != nil {
		return bpf.MapError(err)
	}
	if t.stream, err = event.NewStream(t.ring, t.size); err != nil {
		t.ring.Close()
	}
	return err
}

func (t *trace) close() {
	t.stream.Close()
	t.ring.Close()
}

// Selector implements engine.Subscriber.
func (t *trace) Selector() *probes.Selector { return t.run.Selector }

// Together implements engine.Subscriber.
func (t *trace) Together() bool { return false }

// AsksProcesses implements engine.Subscriber.
func (t *trace) AsksProcesses() bool { return false }

// ProcessFound implements engine.Subscriber.
func (t *trace) ProcessFound(int) error { return nil }

// Problem implements engine.Subscriber.
func (t *trace) Problem(err error) { t.run.Problem(err) }

// size returns the size of the records of a probe.
func (t *trace) size(id uint32) int {
	if int(id) >= len(t.sizes) {
		return 0
	}
	return t.sizes[id]
}

// Section implements engine.Subscriber.
func (t *trace) Section(p *bpf.Probe) (*bpf.Section, error) {
	tr, err := bpf.NewTrace(p, t.run.Where, t.options.Show, t.options.TextSize, t.options.Verbose)
	if err != nil {
		return nil, err
	}
	section, err := tr.Section(t.run.Env, t.ring, uint32(len(t.sources)))
	if err != nil {
		return nil, err
	}
	source := &render.Source{Provider: p.Provider, Probe: p.Name, Items: tr.Items}
	t.sources, t.sizes = append(t.sources, source), append(t.sizes, tr.Size)
	t.lines.Known(source)
	return section, nil
}

// FDs implements engine.Consumer.
func (t *trace) FDs() []int { return []int{t.stream.FD()} }

// Tick shows the next events.
func (t *trace) Tick() (next time.Duration, more bool, err error) {
	events, err := t.stream.Read(0, false)
	if err != nil {
		return 0, false, err
	}
	if err := t.print(events); err != nil {
		return 0, false, err
	}
	if next = engine.Rest; t.stream.Waiting() {
		next = event.Slack
	}
	return next, t.shown < t.options.Limit, t.report(false)
}

// drain shows what was written before the detachment.
func (t *trace) drain() error {
	for {
		events, err := t.stream.Read(0, true)
		if err != nil || len(events) == 0 {
			return err
		}
		if err := t.print(events); err != nil {
			return err
		}
	}
}

func (t *trace) print(events []*event.Event) error {
	for _, e := range events {
		if t.shown == t.options.Limit {
			break
		}
		t.lines.Event(t.sources[e.ID], e)
		t.shown++
		if t.lines.Size() > 64<<10 {
			if err := t.lines.Flush(t.run.Out); err != nil {
				return err
			}
		}
	}
	return t.lines.Flush(t.run.Out)
}

// report says how many events were lost since it last did.
func (t *trace) report(last bool) error {
	stats, err := record.ReadStats(t.run.Env.Stats)
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
