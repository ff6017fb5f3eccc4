package events

import (
	"context"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/paired"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Consumer takes events. It ends the run by returning replay.ErrEnough.
type Consumer interface {
	// Event takes an event, which is valid until Event returns.
	Event(*Event) error
	// Tick is called when the consumer has taken all present events. It returns the maximum time
	// until the next call, and whether the run goes on.
	Tick() (next time.Duration, more bool, err error)
	// Know is called with a probe, which has all of its arguments, before its events. It may be
	// called more than once for a probe.
	Know(*recording.Probe)
	// Gone is called after a process has ended and its events were delivered.
	Gone(*replay.File)
}

// Taker is a Consumer for which the order of recorded events does not matter.
type Taker interface {
	// Taker returns the function that takes the events of a probe in place of Consumer.Event. It is
	// called once for each probe, and may return nil if none is taken.
	Taker(*recording.Probe) func(*recording.Event)
}

// Copier is a Consumer that can also take events as records.
type Copier interface {
	Consumer
	// Copy is called after an event of a file. It may take the file's next events from the reader.
	Copy(file *replay.File, from *replay.Reader) error
}

// Source delivers the events that a configuration selects, in the order of their times. Recordings,
// the sockets of programs, their pages and the kernel are sources.
type Source interface {
	// Probes returns the selected probes that are known so far.
	Probes() []*recording.Probe
	// Run passes events to a consumer until ctx is done, the configuration's time is over, the
	// consumer needs no more events, or there are no more events.
	Run(ctx context.Context, c Consumer) error
	// Lost returns the number of events lost so far. Losses also returns where they are missing, if
	// that is known. Only the goroutine of Run may call them.
	Lost() uint64
	Losses() replay.Losses
	// Clock returns the time of an event by the clock that relates the events of all processes.
	Clock(e *recording.Event) time.Duration
	// Until returns the time of day until which the events have been delivered.
	Until() time.Time
	// Announce prints what is watched, on a terminal and if the command is verbose.
	Announce()
	// Report warns of missing events, except the lost ones that the command has reported already.
	// consequence describes the effect on the result. Report returns an error if a program went
	// away before its end; the result is valid even then.
	Report(consequence string, reported uint64) error
	Close()
}

// Unended is the consequence of lost events for operations.
const Unended = "operations may be missing, and ends may be lost"

// TooFast is the reason for losing events that a program fires.
const TooFast = "they came faster than they could be read"

// WarnLost warns of lost events. consequence describes the effect on the result, or is "".
func WarnLost(to *console.Console, lost uint64, why, consequence string) {
	if consequence != "" {
		why += ": " + consequence
	}
	if lost > 0 {
		to.Warn("%d events were lost, because %s", lost, why)
	}
}

// WarnLost warns of lost events while the stream runs.
func (s *Stream) WarnLost(to *console.Console, lost uint64) { WarnLost(to, lost, s.Why, "") }

// Options select the source of the events and the data they carry.
type Options struct {
	// From names the source that replaces processes.
	From replay.From
	// Needs are the requirements on the source.
	Needs replay.Needs
	// Goroutines requests the goroutine of each event from the kernel. Other sources always
	// deliver it.
	Goroutines bool
	// Stacks requests the stack of each event, which only the kernel delivers.
	Stacks bool
	// Calls requests the Call of each event. All probes must be functions.
	Calls *Calls
	// Show selects the arguments of events. If it is nil, they have those of their probes.
	Show *Show
	// Paired means that the command pairs events. The kernel then delivers their processes, as
	// other sources always do, and Report warns of arguments that could not be read.
	Paired bool
	// Past requests the events that watched processes have recorded earlier. They come first, and
	// replay.File.InPast reports them.
	Past bool
}

// Stream is a source with its properties.
type Stream struct {
	Source
	// Live means that the events happen now.
	Live bool
	// Pods means that the events come from several pods, so the output must name the pods.
	Pods bool
	// Target selects the processes, if it is not the past.
	Target query.Target
	// Why is the reason for lost events.
	Why string
	// Past is nil unless the stream is live.
	Past *Past
}

// Open opens a stream of the events of the recordings, the page or the pods that the options name,
// as far as a configuration selects them. The configuration's Where is the condition.
func Open(to *console.Console, config *query.Config, o Options) (*Stream, error) {
	o.Needs.Pairing = paired.Of(&o.Needs, config.Where)
	switch {
	case o.From.Address != "":
		p, err := openPage(to, config, &o)
		if err != nil {
			return nil, err
		}
		return &Stream{Source: p, Live: true, Why: tooMany, Past: NewPast()}, nil
	case o.From.Replicas != nil:
		r, err := openReplicas(to, config, &o)
		if err != nil {
			return nil, err
		}
		return &Stream{Source: r, Live: true, Pods: true, Why: TooFast, Past: NewPast()}, nil
	}
	f, err := openFiles(to, config, &o)
	if err != nil {
		return nil, err
	}
	return &Stream{Source: f}, nil
}
