//go:build linux

package events

import (
	"context"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// TextSize is how many bytes of a text in an event the kernel delivers, unless a Show says something else.
const TextSize = 256

// Consumer takes events. The error live.ErrEnough ends the run.
type Consumer interface {
	// Event takes an event, which is valid until it returns.
	Event(*Event) error
	// Tick is called when the events of the present are taken. It returns how long it may take until it is called again, and
	// whether the run goes on.
	Tick() (next time.Duration, more bool, err error)
	// Know is called with a probe before its events. It may be called again.
	Know(*recording.Probe)
	// Gone is called when a process has ended, and its events are delivered.
	Gone(*replay.File)
}

// Source delivers the events that a configuration selects, in the order of their times. Recordings, the sockets of programs, their
// pages and the kernel are sources.
type Source interface {
	// Probes returns the probes that are selected, as far as they are known.
	Probes() []*recording.Probe
	// Run lets a consumer take the events until ctx is done, the time of the configuration is over, the consumer has enough, or
	// there are no more.
	Run(ctx context.Context, c Consumer) error
	// Lost returns how many events were lost so far, and Losses also where they are missing, if that is known. They must not be
	// called by another goroutine than Run is.
	Lost() uint64
	Losses() replay.Losses
	// Clock returns the time of an event by the clock that relates those of all processes.
	Clock(e *recording.Event) time.Duration
	// Announce says on a terminal, and if the command is verbose, what is watched.
	Announce()
	// Report warns of what is missing from the events, besides lost ones that the command has reported. consequence says what this
	// means for the result. The error is that a program has gone away that was to send more, which leaves the result as it is.
	Report(consequence string, reported uint64) error
	Close()
}

// Unended is the consequence of lost events for operations.
const Unended = "operations that have ended may be shown as open, and others may be missing"

// tooFast is why events are lost that a program fires.
const tooFast = "they came faster than they could be read"

// warnLost warns of events that were lost, and says what this means for the result, unless consequence is "".
func warnLost(to *console.Console, lost uint64, why, consequence string) {
	if consequence != "" {
		why += ": " + consequence
	}
	if lost > 0 {
		to.Warn("%d events were lost, because %s", lost, why)
	}
}

// WarnLost warns of events that were lost while the stream runs.
func (s *Stream) WarnLost(to *console.Console, lost uint64) { warnLost(to, lost, s.why, "") }

// Options say from where the events come.
type Options struct {
	// From names what is read in place of processes.
	From replay.From
	// Needs are those of live.Open, for every source.
	Needs live.Needs
	// Goroutines asks the kernel for the goroutine of each event. The others deliver it in any case.
	Goroutines bool
	// Calls asks for the Call of each event. All probes must be functions.
	Calls *Calls
	// Show asks for the values of each event.
	Show *Show
}

// Stream is a source with what a command knows about it.
type Stream struct {
	Source
	// Live means that the events are of the present.
	Live bool
	// TellsOpen means that it is known of an operation without an end whether the end may have been lost. The kernel does not say
	// when it has lost events.
	TellsOpen bool
	// Pods means that the events are of several pods, so that their names belong to the output.
	Pods bool

	why string // events are lost
}

// Open opens a stream of the events that a configuration selects, of which Where is the condition.
func Open(to *console.Console, config *run.Config, o Options) (*Stream, error) {
	s, err := OpenOutside(to, config, o)
	if err != nil || s != nil {
		return s, err
	}
	k, err := openKernel(to, config, &o)
	if err != nil {
		return nil, live.Refuse(err, o.Needs.Kernel)
	}
	return &Stream{Source: k, Live: true, Pods: k.pods, why: tooFast}, nil
}

// OpenOutside is Open for a command that lets the kernel itself do its work: it returns nil if the kernel is to.
func OpenOutside(to *console.Console, config *run.Config, o Options) (*Stream, error) {
	switch {
	case o.From.Address != "":
		p, err := openPage(to, config, &o)
		if err != nil {
			return nil, err
		}
		return &Stream{Source: p, Live: true, TellsOpen: true, why: tooMany}, nil
	case o.From.Given():
		f, err := openFiles(to, config, &o)
		if err != nil {
			return nil, err
		}
		return &Stream{Source: f, TellsOpen: true}, nil
	}
	f, err := live.Open(to, config, o.Needs)
	if err != nil || f == nil {
		return nil, err
	}
	return &Stream{Source: &feed{Feed: f, show: o.Show}, Live: true, TellsOpen: true, why: tooFast}, nil
}
