//go:build linux

package live

import (
	"iter"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/socket"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// state is the state of a program. A program that has gone is not kept.
type state uint8

const (
	connecting state = iota // to the process
	connected               // but not watched
	asked                   // to be watched
	watched
)

// program is a process that listens.
type program struct {
	*socket.Connection // nil while connecting
	state              state
	file               *replay.File  // of a program that is watched
	size               int           // of its memory, or the requested size
	since              time.Duration // when its watch had begun, by CLOCK_MONOTONIC
	joined             bool          // Joined was called
	gone               chan struct{} // closed when the connection has ended, or was interrupted
}

// in returns an iterator over the programs in a state.
func (f *Feed) in(s state) iter.Seq2[socket.Key, *program] {
	return func(yield func(socket.Key, *program) bool) {
		for k, p := range f.programs {
			if p.state == s && !yield(k, p) {
				return
			}
		}
	}
}

// count returns the number of programs in a state.
func (f *Feed) count(s state) (n int) {
	for range f.in(s) {
		n++
	}
	return n
}

// expected returns the number of programs that have not answered yet.
func (f *Feed) expected() int { return f.count(connecting) + f.count(asked) }

// answered returns an iterator over the programs that have sent their probes.
func (f *Feed) answered() iter.Seq[*program] {
	return func(yield func(*program) bool) {
		for _, p := range f.programs {
			if p.state != connecting && !yield(p) {
				return
			}
		}
	}
}

// selected returns an iterator over the selected probes of a program, as it has them and completed.
func (f *Feed) selected(p *program) iter.Seq2[*recording.Probe, *recording.Probe] {
	return func(yield func(probe, completed *recording.Probe) bool) {
		for _, probe := range p.Probes {
			if f.Selects(probe.Provider, probe.Name) &&
				!yield(probe, f.Complete(probe, p.Probes)) {
				return
			}
		}
	}
}

// join calls Joined with the programs whose events have not been delivered yet.
func (f *Feed) join() error {
	if f.watches != nil || f.Joined == nil {
		return nil
	}
	for _, p := range f.in(watched) {
		if p.joined {
			continue
		}
		p.joined = true
		if err := f.Joined(p.Process, p.file, p.since); err != nil {
			return err
		}
	}
	return nil
}
