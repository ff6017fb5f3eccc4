//go:build linux

package record

import (
	"context"
	"math"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// liveTape records the events of programs that listen. It is a live.Consumer.
type liveTape struct {
	*output
	feed    *live.Feed
	numbers map[*recording.Probe]uint32
	unknown map[*recording.Probe]bool // probes for which there is no room
	lost    uint64                    // by the programs, of which the recording knows
}

// runLive records events until the run ends.
func runLive(ctx context.Context, to *console.Console, feed *live.Feed, config *run.Config, options *Options) error {
	out, err := create(to, options, config.PIDs)
	if err != nil {
		return err
	}
	defer out.close()
	if err := out.publish(); err != nil {
		return err
	}
	t := &liveTape{output: out, feed: feed, numbers: map[*recording.Probe]uint32{}, unknown: map[*recording.Probe]bool{}}
	feed.Announce()
	if err := feed.Run(ctx, t); err != nil {
		return err
	}
	t.lose()
	if err := out.report(); err != nil {
		return err
	}
	if t.lost > 0 {
		to.Warn("%d other events were lost, because they came faster than they could be recorded", t.lost)
	}
	return nil
}

// Event records an event.
func (t *liveTape) Event(e *recording.Event, _ *replay.File) error {
	number, known := t.numbers[e.Probe]
	if !known {
		if t.unknown[e.Probe] {
			t.writer.Drop()
			return nil
		}
		var err error
		if number, err = t.number(e.Probe); err != nil {
			t.Warn("%s:%s: %v", e.Probe.Provider, e.Probe.Name, err)
			t.unknown[e.Probe] = true
			t.writer.Drop()
			return nil
		}
		t.numbers[e.Probe] = number
	}
	words, texts := t.words[:0], t.texts[:0]
	for i, a := range e.Probe.Args {
		switch {
		case a.Kind == recording.String:
			text := e.Text(i)
			if len(text) > t.options.TextSize {
				text = layout.WholeRunes(text[:t.options.TextSize])
			}
			words, texts = append(words, uint64(len(text))), append(texts, string(text))
		case a.Type == recording.TypeFloat32:
			words = append(words, uint64(math.Float32bits(float32(math.Float64frombits(e.Word(i))))))
		default:
			words = append(words, e.Word(i))
		}
	}
	t.append(number, e.Monotonic, e.PID, e.TID, words, texts)
	if t.recorded == t.options.Limit {
		return live.ErrEnough
	}
	return nil
}

// Tick implements live.Consumer.
func (t *liveTape) Tick() (next time.Duration, more bool, err error) {
	t.lose()
	return engine.Rest, true, t.failed()
}

// lose counts in the recording what the programs have lost.
func (t *liveTape) lose() {
	if lost := t.feed.Lost(); lost > t.lost {
		t.writer.DropSome(lost - t.lost)
		t.lost = lost
	}
}
