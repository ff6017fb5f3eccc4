//go:build linux

// Package record records events that the kernel or programs deliver, in a file that survives.
package record

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Options say what is recorded, and where.
type Options struct {
	// Path is that of the file, and Size how many bytes of events it has room for.
	Path string
	Size int64
	// Limit is the number of events after which the recording ends, or 0 for none.
	Limit uint64
	// TextSize is how many bytes of a text are recorded, at most MaxText.
	TextSize int
}

const (
	// MaxText is what a program can read of a text without touching a third page.
	MaxText = 4000
	// MinSize and MaxSize are those of Options.Size.
	MinSize = 4 * recording.ChunkBytes
	MaxSize = 16 << 30
	// ringSize holds what two threads fire in a tenth of a second.
	ringSize = 16 << 20
)

// Run records events until the run ends.
func Run(ctx context.Context, to *console.Console, config run.Config, o Options) (err error) {
	switch {
	case o.Path == "":
		return console.Usagef("no file: give -O FILE")
	case o.TextSize < 1 || o.TextSize > MaxText:
		return console.Usagef("--strlen must be between 1 and %d", MaxText)
	case o.Size < MinSize || o.Size > MaxSize:
		return console.Usagef("--size must be between %d and %d bytes", MinSize, int64(MaxSize))
	case o.Limit == 0:
		o.Limit = math.MaxUint64
	}
	feed, err := live.Open(to, &config, live.Needs{Where: config.Where})
	if err != nil {
		return err
	}
	if feed != nil {
		defer feed.Close()
		return runLive(ctx, to, feed, &config, &o)
	}
	r, err := run.New(to, config)
	if err != nil {
		return err
	}
	defer r.Close()
	t := &tape{options: &o, run: r}
	if err := t.open(); err != nil {
		return err
	}
	defer t.close()
	if err := r.Attach(t); err != nil {
		return err
	}
	if err := t.out.publish(); err != nil {
		return err
	}
	r.Announce()
	if err := r.Wait(ctx, t); err != nil {
		return err
	}
	if err := t.Drain(t.add); err != nil {
		return err
	}
	return t.report()
}

// tape is a recording of events of the kernel. It is an engine.Subscriber and an engine.Consumer.
type tape struct {
	*run.Ring
	options *Options
	run     *run.Run
	out     *output
	probes  []*probe // by the numbers of the programs

	unreadable uint64 // events with an argument that could not be read
	lost       uint64 // by the kernel, of which the recording knows
}

// probe is what is recorded of the events of a program.
type probe struct {
	number uint32 // in the recording
	items  []layout.Item
	kept   []int // the items that are recorded
}

func (t *tape) open() (err error) {
	if t.Ring, err = t.run.NewRing(ringSize); err != nil {
		return err
	}
	if t.out, err = create(t.run.Console, t.options, t.run.PIDs); err != nil {
		t.close()
	}
	return err
}

func (t *tape) close() {
	if t.out != nil {
		t.out.close()
	}
	t.Close()
}

// Section implements engine.Subscriber.
func (t *tape) Section(p *bpf.Probe) (*bpf.Section, error) {
	tr, err := bpf.NewTrace(p, t.run.Where, nil, t.options.TextSize, false)
	if err != nil {
		return nil, err
	}
	entry, kept := describe(p, tr.Items)
	if left := len(tr.Items) - len(kept); left > 0 {
		t.run.Warn("%v: %s can never be read, and not recorded", p, render.Number(left, "argument"))
	}
	added := &probe{items: tr.Items, kept: kept}
	if added.number, err = t.out.number(entry); err != nil {
		return nil, fmt.Errorf("%v: %w", p, err)
	}
	section, err := t.Add(tr)
	if err == nil {
		t.probes = append(t.probes, added)
	}
	return section, err
}

// Tick records the next events.
func (t *tape) Tick() (next time.Duration, more bool, err error) {
	if next, err = t.Take(t.add); err != nil {
		return 0, false, err
	}
	if err := t.out.failed(); err != nil {
		return 0, false, err
	}
	return next, t.out.recorded < t.options.Limit, t.lose()
}

func (t *tape) add(events []*event.Event) error {
	for _, e := range events {
		if t.out.recorded == t.options.Limit {
			break
		}
		t.append(t.probes[e.ID], e)
	}
	return nil
}

// append records an event. One with an argument that could not be read is left out: a recording cannot say
// that a value is unknown.
func (t *tape) append(p *probe, e *event.Event) {
	words, texts := t.out.words[:0], t.out.texts[:0]
	for _, i := range p.kept {
		v := e.Value(p.items, i)
		switch {
		case v.Missing:
			t.unreadable++
			t.out.writer.Drop()
			return
		case p.items[i].Names != nil:
			name := p.items[i].Names.NameOf(v.Bits)
			words = append(words, uint64(len(name)))
			texts = append(texts, name)
		case p.items[i].Type.Kind == expr.String:
			words = append(words, uint64(len(v.Text)))
			texts = append(texts, string(v.Text))
		default:
			words = append(words, v.Bits)
		}
	}
	t.out.append(p.number, e.Time, e.PID, e.TID, words, texts)
}

// lose counts in the recording what the kernel has lost.
func (t *tape) lose() error {
	stats, err := layout.ReadStats(t.run.Env.Stats)
	if err != nil {
		return err
	}
	if n := stats.Lost - t.lost; n > 0 {
		t.lost = stats.Lost
		t.out.writer.DropSome(n)
	}
	return nil
}

// report says what the recording has.
func (t *tape) report() error {
	if err := t.lose(); err != nil {
		return err
	}
	if err := t.out.report(); err != nil {
		return err
	}
	if t.lost > 0 {
		t.run.Warn("%d other events were lost, because they came faster than they could be recorded", t.lost)
	}
	if t.unreadable > 0 {
		t.run.Warn("%d events are not included, because an argument could not be read", t.unreadable)
	}
	stats, err := layout.ReadStats(t.run.Env.Stats)
	if err == nil {
		t.run.Unevaluated(stats)
	}
	return err
}

// describe returns the entry for a probe, and which items it has.
func describe(p *bpf.Probe, items []layout.Item) (entry *recording.Probe, kept []int) {
	entry = &recording.Probe{Provider: p.Provider, Name: p.Name}
	for i := range items {
		if items[i].Unreadable != nil || len(kept) == recording.MaxArgs {
			continue
		}
		arg := argOf(&items[i])
		arg.Name = items[i].Name
		entry.Args, kept = append(entry.Args, arg), append(kept, i)
	}
	return entry, slices.Clip(kept)
}
