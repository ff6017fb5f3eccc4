//go:build linux

package trace

import (
	"context"
	"io"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/record"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/recorded"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/usage"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// rest is how long a recording is left alone that has had no new events, and shortest how long one that has.
const (
	rest     = 50 * time.Millisecond
	shortest = time.Millisecond
)

// recordedTrace shows the events of recordings.
type recordedTrace struct {
	*console.Console
	options *Options
	source  *recorded.Source
	lines   render.Lines
	known   map[*recording.Probe]*render.Source
	shown   uint64
	lost    uint64 // that were reported
}

// runRecorded shows the events of the recordings in o.From.
func runRecorded(ctx context.Context, to *console.Console, config *run.Config, o *Options) (err error) {
	if config.Given() || len(o.Show) > 0 || o.Verbose || config.Single {
		return usage.Errorf("-p, -a, --show and -v are for traces of processes, and --from reads recordings")
	}
	if config.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, config.Duration)
		defer cancel()
	}
	t := &recordedTrace{Console: to, options: o, known: map[*recording.Probe]*render.Source{}}
	t.lines = render.Lines{JSON: o.JSON, Color: console.Colored(to.Out)}
	if t.source, err = recorded.Open(o.From, config.Specs, config.Where); err != nil {
		return err
	}
	defer t.source.Close()
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
		t.report(!o.Follow || ctx.Err() != nil)
		if !o.Follow || t.shown == o.Limit || ctx.Err() != nil {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
			wait = min(2*wait, rest)
		}
	}
}

// show shows what the source has found.
func (t *recordedTrace) show(ctx context.Context) error {
	for t.shown < t.options.Limit && ctx.Err() == nil {
		e, _, err := t.source.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		t.line(e)
		if t.shown++; t.lines.Size() > 64<<10 {
			if err := t.lines.Flush(t.Out); err != nil {
				return err
			}
		}
	}
	return t.lines.Flush(t.Out)
}

func (t *recordedTrace) line(e *recording.Event) {
	s := t.known[e.Probe]
	if s == nil {
		s = &render.Source{Provider: e.Probe.Provider, Probe: e.Probe.Name}
		for i, v := range recorded.Variables(e.Probe)[:len(e.Probe.Args)] {
			item := record.Item{Name: v.Name, Type: v.Type, TextSize: t.options.TextSize}
			if e.Probe.Args[i].Kind == recording.Pointer {
				item.Described = recorded.Pointer
			}
			s.Items = append(s.Items, item)
		}
		t.known[e.Probe] = s
		t.lines.Known(s)
	}
	tid := int64(-1)
	if e.TID != 0 {
		tid = int64(e.TID)
	}
	comm := []byte(recorded.Executable(e))
	if len(comm) == 0 && !t.options.JSON {
		comm = []byte("-") // a column for people
	}
	at := time.Unix(0, e.Realtime)
	t.lines.Line(s, render.Fired{At: at, PID: e.PID, TID: tid, Comm: comm}, func(i int) event.Value {
		v := event.Value{Type: s.Items[i].Type}
		if e.Probe.Args[i].Kind != recording.String {
			v.Bits = recorded.Bits(v.Type, recorded.Variable(e, i))
			return v
		}
		v.Text = e.Text(i)
		if v.Bits = 1; len(v.Text) > t.options.TextSize {
			v.Text, v.Cut = record.WholeRunes(v.Text[:t.options.TextSize]), true
		}
		return v
	})
}

// report says how many events were lost, at the end or when more were.
func (t *recordedTrace) report(last bool) {
	if lost := t.source.Lost(); lost > t.lost && (last || t.options.Follow) {
		t.lost = lost
		t.Warn("the recording has lost %d events, the oldest ones: what is shown is not all", lost)
	}
}
