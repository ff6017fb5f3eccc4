//go:build linux

package trace

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// rest is how long a recording is left alone that has had no new events, and shortest how long one that has.
const (
	rest     = 50 * time.Millisecond
	shortest = time.Millisecond
)

// recordedTrace shows the events of recordings, or of programs that listen. It is a live.Consumer.
type recordedTrace struct {
	*console.Console
	options *Options
	source  *replay.Source
	lines   render.Lines
	known   map[*recording.Probe]*shownProbe
	shown   uint64
	lost    uint64 // that were reported, or shown where they are missing
}

// runRecorded shows the events of the recordings in o.From.
func runRecorded(ctx context.Context, to *console.Console, config *run.Config, o *Options) (err error) {
	if config.Given() || o.Verbose || config.Single || config.Via != "" || config.Budget > 0 || config.Duration > 0 && !o.Follow {
		return console.Usagef("-p, -a, -v, --via and --budget are for traces of processes, and -d for these and --follow: --from reads recordings")
	}
	if config.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, config.Duration)
		defer cancel()
	}
	t := &recordedTrace{Console: to, options: o, known: map[*recording.Probe]*shownProbe{}}
	t.lines = render.Lines{JSON: o.JSON, Color: console.Colored(to.Out)}
	if t.source, err = replay.Open(o.From, config.Specs, config.Where, o.fits); err != nil {
		return err
	}
	defer t.source.Close()
	t.source.Begin(to)
	wait := shortest
	for {
		more, err := t.source.More()
		if err != nil {
			return err
		}
		if more {
			if err := t.show(ctx); err != nil {
				return err
			}
			wait = shortest
		}
		if !o.Follow || t.shown == o.Limit || ctx.Err() != nil {
			return t.report()
		}
		if !more {
			t.source.Follow(to)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
			wait = min(2*wait, rest)
		}
	}
}

// runLive shows the events of programs that listen.
func runLive(ctx context.Context, to *console.Console, feed *live.Feed, o *Options) error {
	t := &recordedTrace{Console: to, options: o, source: feed.Source, known: map[*recording.Probe]*shownProbe{}}
	t.lines = render.Lines{JSON: o.JSON, Color: console.Colored(to.Out)}
	feed.Announce()
	if err := feed.Run(ctx, t); err != nil {
		return err
	}
	if err := t.lines.Flush(t.Out); err != nil {
		return err
	}
	t.reportLive()
	if lost := t.source.Lost(); lost > 0 && o.JSON {
		fmt.Fprintf(t.Out, "{\"lost\":%d}\n", lost)
	}
	return nil
}

// Event implements live.Consumer.
func (t *recordedTrace) Event(e *recording.Event, f *replay.File) error {
	if t.shown == t.options.Limit {
		return live.ErrEnough
	}
	t.line(e, f)
	if t.shown++; t.shown == t.options.Limit {
		return live.ErrEnough
	}
	if t.lines.Size() > 64<<10 {
		return t.lines.Flush(t.Out)
	}
	return nil
}

// Tick implements live.Consumer.
func (t *recordedTrace) Tick() (next time.Duration, more bool, err error) {
	t.reportLive()
	return engine.Rest, true, t.lines.Flush(t.Out)
}

// reportLive says how many events were lost since it last did.
func (t *recordedTrace) reportLive() {
	if lost := t.source.Lost(); lost > t.lost {
		t.Warn("%d events were lost, because they came faster than they could be shown", lost-t.lost)
		t.lost = lost
	}
}

// show shows what the source has found.
func (t *recordedTrace) show(ctx context.Context) error {
	for t.shown < t.options.Limit && ctx.Err() == nil {
		e, f, err := t.source.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if e.Missing > 0 {
			if err := t.hole(e); err != nil {
				return err
			}
		}
		t.line(e, f)
		if t.shown++; t.lines.Size() > 64<<10 {
			if err := t.lines.Flush(t.Out); err != nil {
				return err
			}
		}
	}
	return t.lines.Flush(t.Out)
}

// fits returns an error if a probe does not have what is to be shown.
func (o *Options) fits(p *recording.Probe) error {
	v := replay.NewEvaluator(p)
	for _, src := range o.Show {
		if _, err := v.Parse(src); err != nil {
			return err
		}
	}
	return nil
}

// shownProbe is what is shown of a probe's events: its arguments, or the values of expressions.
type shownProbe struct {
	render.Source
	*replay.Evaluator
	exprs []*expr.Expr // nil for the arguments
}

// probe returns what is shown of a probe, or nil if it does not have what is asked for.
func (t *recordedTrace) probe(p *recording.Probe) *shownProbe {
	if s, known := t.known[p]; known {
		return s
	}
	s := &shownProbe{Source: render.Source{Provider: p.Provider, Probe: p.Name}, Evaluator: replay.NewEvaluator(p)}
	t.known[p] = s
	for _, src := range t.options.Show {
		e, err := s.Parse(src)
		if err != nil { // the source leaves it out
			t.known[p] = nil
			return nil
		}
		s.exprs = append(s.exprs, e)
		s.Items = append(s.Items, layout.Item{Name: src, Type: e.Type(), TextSize: t.options.TextSize})
	}
	if s.exprs == nil {
		for i, v := range replay.Variables(p)[:len(p.Args)] {
			item := layout.Item{Name: v.Name, Type: v.Type, TextSize: t.options.TextSize}
			if p.Args[i].Kind == recording.Pointer {
				item.Described = replay.Pointer
			}
			s.Items = append(s.Items, item)
		}
	}
	t.lines.Known(&s.Source)
	return s
}

// value returns the i-th value that is shown.
func (t *recordedTrace) value(s *shownProbe, e *recording.Event, i int) event.Value {
	v := event.Value{Type: s.Items[i].Type}
	var one expr.Value
	switch {
	case s.exprs != nil:
		if one, v.Missing = s.exprs[i].Eval(func(i int) expr.Value { return replay.Variable(e, i) }); v.Missing {
			return v
		}
		v.Text = []byte(one.Text())
	case e.Probe.Args[i].Kind == recording.String:
		v.Text = e.Text(i)
	default:
		one = replay.Variable(e, i)
	}
	if v.Type.Kind != expr.String {
		v.Bits, v.Text = replay.Bits(v.Type, one), nil
		return v
	}
	if v.Bits = 1; len(v.Text) > t.options.TextSize {
		v.Text, v.Cut = layout.WholeRunes(v.Text[:t.options.TextSize]), true
	}
	return v
}

// line adds the line of an event.
func (t *recordedTrace) line(e *recording.Event, f *replay.File) {
	s := t.probe(e.Probe)
	if s == nil {
		return
	}
	tid := int64(-1)
	if e.TID != 0 {
		tid = int64(e.TID)
	}
	comm := []byte(replay.Executable(e))
	if p := f.Process; p != nil && p.Comm != "" {
		comm = []byte(p.Comm)
	}
	if len(comm) == 0 && !t.options.JSON {
		comm = []byte("-") // a column for people
	}
	at := time.Unix(0, e.Realtime)
	t.lines.Line(&s.Source, render.Fired{At: at, PID: e.PID, TID: tid, Comm: comm}, func(i int) event.Value { return t.value(s, e, i) })
}

// hole says that events are missing before one. For people, the end of the trace says how many are before the first.
func (t *recordedTrace) hole(e *recording.Event) error {
	if err := t.lines.Flush(t.Out); err != nil {
		return err
	}
	at := time.Unix(0, e.Realtime)
	t.lost += e.Missing
	if t.options.JSON {
		return t.encodeLost(at.UTC().Format(time.RFC3339Nano), e.Missing)
	}
	if t.shown == 0 {
		return nil
	}
	_, err := fmt.Fprintf(t.Out, "%s  %s lost before this\n", at.Format("15:04:05.000000"), render.Number(e.Missing, "event"))
	return err
}

// encodeLost writes a number of lost events, before a time or, if it is "", at times that are not known or after the last event.
func (t *recordedTrace) encodeLost(before string, events uint64) error {
	return render.NewEncoder(t.Out).Encode(struct {
		Before string `json:"time,omitempty"`
		Lost   uint64 `json:"lost"`
	}{before, events})
}

// report says where events are missing.
func (t *recordedTrace) report() error {
	if left := t.source.Lost() - t.lost; t.options.JSON && left > 0 {
		if err := t.encodeLost("", left); err != nil {
			return err
		}
	}
	t.source.Report(t.Console, "what is shown is not all")
	return nil
}
