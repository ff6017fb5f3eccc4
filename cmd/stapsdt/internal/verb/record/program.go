//go:build linux

package record

import (
	"math"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"
)

// program is a program whose memory is read. Most of its events are copied from there, without
// being decoded.
type program struct {
	shard *recorder.Shard
	to    recording.Destination
}

// program returns the program that has fired an event, or nil if the event is recorded in the shard
// of all others: the kernel has delivered it, or there are too many programs.
func (r *consumer) program(e *events.Event) *program {
	if e.File.Reader == nil || e.PID == 0 {
		return nil
	}
	p, ok := r.programs[e.File]
	if ok {
		return p
	}
	to := recording.Destination{
		TextSize: uint64(r.options.TextSize), PID: e.PID, Threads: e.TID != 0,
	}
	pid := e.PID
	if to.Threads {
		pid = 0 // each event has it
	}
	if shard := r.writer.Shard(pid); shard != nil {
		p = &program{shard: shard, to: to}
	}
	r.programs[e.File] = p
	return p
}

// append records an event. From now on, the events of its probe can be copied if the words of their
// arguments are the same in the recording.
func (p *program) append(e *events.Event, recorded *probe, words []uint64, texts []string) {
	origin := p.to.Origin(e.TID, e.Goroutine)
	p.shard.Append(recorded.number, uint64(e.Monotonic), origin, words, texts)
	if int(e.Number) >= len(p.to.Targets) || p.to.Targets[e.Number].Copies() {
		return
	}
	same := func(a, b recording.Arg) bool { return a.Type == b.Type }
	if slices.EqualFunc(e.Probe.Args, recorded.args, same) {
		p.to.Targets[e.Number] = recording.NewTarget(e.Probe, recorded.number)
	}
}

// Copy implements events.Copier.
func (r *consumer) Copy(f *replay.File, from *replay.Reader) (err error) {
	p := r.programs[f]
	if p == nil || r.options.Limit != math.MaxUint64 {
		return nil
	}
	p.shard.Fill(func(room []byte) (size int, events uint64) {
		size, events, err = from.Copy(f, room, &p.to)
		r.recorded += events
		return size, events
	})
	return err
}
