//go:build linux

// Package ctf writes events in the Common Trace Format 1.8, which babeltrace2 reads.
// The format: https://diamon.org/ctf/v1.8.3/
package ctf

import (
	"cmp"
	"context"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Options select what is written and where.
type Options struct {
	// Path is the directory, which must not exist.
	Path string
	// Limit is the number of events after which the run ends, or 0 for none.
	Limit uint64
	// From are the recordings to read instead of processes.
	From replay.From
}

// view writes events. It is an events.Consumer.
type view struct {
	options *Options
	stream  *events.Stream
	classes map[*recording.Probe]uint32
	writer  *writer
	events  uint64
}

// Run writes events until the run ends.
func Run(ctx context.Context, to *console.Console, config run.Config, o Options) (err error) {
	if o.Path == "" || o.Path == "-" {
		return console.Usagef("-o ctf needs a directory: give -O DIRECTORY")
	}
	v := &view{options: &o, classes: map[*recording.Probe]uint32{}}
	if v.stream, err = events.Open(to, &config, events.Options{From: o.From, Goroutines: true}); err != nil {
		return err
	}
	defer v.stream.Close()
	if v.writer, err = create(o.Path); err != nil {
		return err
	}
	v.stream.Announce()
	err = v.stream.Run(ctx, v)
	if err := cmp.Or(err, v.writer.close(v.stream.Lost())); err != nil {
		return err
	}
	err = v.stream.Report("what is written is not all", 0)
	to.Warn("wrote %s to %s: read it with babeltrace2", render.Number(v.events, "event"), o.Path)
	return err
}

// Know implements events.Consumer.
func (v *view) Know(*recording.Probe) {}

// Gone implements events.Consumer.
func (v *view) Gone(*replay.File) {}

// Tick implements events.Consumer.
func (v *view) Tick() (next time.Duration, more bool, err error) {
	return engine.Rest, true, v.writer.flush(v.stream.Lost())
}

// Event implements events.Consumer.
func (v *view) Event(e *events.Event) error {
	class, known := v.classes[e.Probe]
	if !known {
		class = v.writer.class(e.Probe)
		v.classes[e.Probe] = class
	}
	if err := v.writer.event(class, v.stream.Clock(e.Event), e.Event, string(e.Comm()), v.stream.Lost); err != nil {
		return err
	}
	if v.events++; v.events == v.options.Limit {
		return live.ErrEnough
	}
	return nil
}
