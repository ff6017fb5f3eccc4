//go:build linux

package events

import (
	"context"
	"errors"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// TextSize is how many bytes of a text in an event the kernel delivers.
const TextSize = 256

// Consumer takes events. The error live.ErrEnough ends the run.
type Consumer interface {
	live.Consumer
	// Know is called with a probe before its events. It may be called again.
	Know(*recording.Probe)
	// Gone is called when a process has ended, and its events are delivered.
	Gone(*replay.File)
}

// Options say from where the events come.
type Options struct {
	// From are the recordings that are read in place of processes.
	From replay.From
	// Needs are those of live.Open. Its All is also called for the probes of other sources.
	Needs live.Needs
	// Goroutines asks the kernel for the goroutine of each event. The others deliver it in any case.
	Goroutines bool
	// Calls asks for the Call of each event. All probes must be functions.
	Calls *Calls
}

// Stream delivers the events that a configuration selects.
type Stream struct {
	config *run.Config
	// One of these is not nil.
	file   *replay.Source
	feed   *live.Feed
	traced *traced
}

// Open opens a stream. Conditions are the consumer's: that of the configuration must be empty.
func Open(to *console.Console, config *run.Config, o Options) (s *Stream, err error) {
	s = &Stream{config: config}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if o.From.Given() {
		return s, s.openFiles(&o)
	}
	if s.feed, err = live.Open(to, config, o.Needs); err != nil || s.feed != nil {
		return s, err
	}
	s.traced, err = openTraced(to, config, &o)
	return s, live.Refuse(err, o.Needs.Kernel)
}

// openFiles opens the recordings.
func (s *Stream) openFiles(o *Options) (err error) {
	c := s.config
	if c.Given() || c.Single || c.Duration > 0 || c.Via != "" || c.Budget > 0 {
		return console.Usagef("-p, -a, -d, --via and --budget are for processes, and --from reads recordings")
	}
	if s.file, err = replay.Open(o.From, append(c.Specs[:len(c.Specs):len(c.Specs)], o.Needs.Others...), "", nil); err != nil {
		return err
	}
	if o.Needs.All == nil {
		return nil
	}
	return o.Needs.All(s.file.Probes())
}

// Live reports whether the events are of the present.
func (s *Stream) Live() bool { return s.file == nil }

// Run lets a consumer take the events until ctx is done, the time of the configuration is over, or
// the recordings or processes have ended.
func (s *Stream) Run(ctx context.Context, c Consumer) error {
	switch {
	case s.file != nil:
		for _, p := range s.file.Probes() {
			c.Know(p)
		}
		err := s.file.Each(ctx, c.Event)
		if errors.Is(err, live.ErrEnough) {
			return nil
		}
		if err != nil {
			return err
		}
		_, _, err = c.Tick()
		return err
	case s.feed != nil:
		for _, p := range s.feed.Probes() { // of programs that Open has begun to watch
			c.Know(p)
		}
		s.feed.Came = func(all []*recording.Probe) {
			for _, p := range all {
				if s.feed.Selects(p.Provider, p.Name) {
					c.Know(p)
				}
			}
		}
		s.feed.Gone = c.Gone
		return s.feed.Run(ctx, c)
	}
	return s.traced.follow(ctx, c)
}

// TellsOpen reports whether it is known of an operation that has no end whether this may have been lost. The kernel does not say when it has
// lost events.
func (s *Stream) TellsOpen() bool { return s.traced == nil }

// Lost returns how many events were lost. It must not be called by another goroutine than Run is.
func (s *Stream) Lost() uint64 {
	switch {
	case s.file != nil:
		return s.file.Lost()
	case s.feed != nil:
		return s.feed.Lost()
	}
	return s.traced.lost()
}

// Unreadable returns how many arguments the kernel could not read. They are "<unreadable>", or 0.
func (s *Stream) Unreadable() uint64 {
	if s.traced == nil {
		return 0
	}
	return s.traced.unreadable
}

// Clock returns the time of an event by the clock that relates those of all processes: CLOCK_MONOTONIC, or the time of day
// if they are recordings of different boots.
func (s *Stream) Clock(e *recording.Event) time.Duration {
	if s.file != nil {
		return s.file.Clock(e)
	}
	return e.Monotonic
}

// Report warns of what was lost, and of clocks that are not the same.
func (s *Stream) Report(to *console.Console) {
	switch lost := s.Lost(); {
	case s.file != nil:
		s.file.Begin(to)
		s.file.Report(to, "what has ended may be missing, or its end")
	case lost > 0:
		to.Warn("%d events were lost, because they came faster than they could be read: what has ended may be shown as open", lost)
	}
	if n := s.Unreadable(); n > 0 {
		to.Warn("%d arguments could not be read, and are <unreadable>, or 0", n)
	}
}

// Close releases everything.
func (s *Stream) Close() {
	switch {
	case s.file != nil:
		s.file.Close()
	case s.feed != nil:
		s.feed.Close()
	case s.traced != nil:
		s.traced.close()
	}
}

// At returns the time of an event.
func At(e *recording.Event) time.Time { return time.Unix(0, e.Realtime) }
