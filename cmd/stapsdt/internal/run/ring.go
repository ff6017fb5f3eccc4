//go:build linux

package run

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/event"

	"github.com/cilium/ebpf"
)

// Ring takes the events of a run one after another. Subscribers that print events embed it: it has all methods of an
// engine.Subscriber except Section, and all methods of an engine.Ticker except Tick.
type Ring struct {
	run    *Run
	events *ebpf.Map
	stream *event.Stream
	sizes  []int // the sizes of the records, by program ID
}

// NewRing returns a ring of size bytes, a power of two.
func (r *Run) NewRing(size uint32) (ring *Ring, err error) {
	ring = &Ring{run: r}
	if ring.events, err = ebpf.NewMap(&ebpf.MapSpec{Name: "events", Type: ebpf.RingBuf, MaxEntries: size}); err != nil {
		return nil, bpf.MapError(err)
	}
	if ring.stream, err = event.NewStream(ring.events, ring.size); err != nil {
		ring.events.Close()
		return nil, err
	}
	return ring, nil
}

// Close releases the ring.
func (r *Ring) Close() {
	r.stream.Close()
	r.events.Close()
}

// size returns the size of a program's records.
func (r *Ring) size(id uint32) int {
	if int(id) >= len(r.sizes) {
		return 0
	}
	return r.sizes[id]
}

// Add returns a section that sends a program's events to the ring. Their ID is the number of programs added before.
func (r *Ring) Add(tr *bpf.Trace) (*bpf.Section, error) {
	section, err := tr.Section(r.run.Env, r.events, uint32(len(r.sizes)))
	if err == nil {
		r.sizes = append(r.sizes, tr.Size)
	}
	return section, err
}

// Problem implements engine.Subscriber.
func (r *Ring) Problem(err error) { r.run.Problem(err) }

// FDs implements engine.Ticker.
func (r *Ring) FDs() []int { return []int{r.stream.FD()} }

// Take calls f with the events whose order is final, and returns the time until the next call.
func (r *Ring) Take(f func([]*event.Event) error) (next time.Duration, err error) {
	events, err := r.stream.Read(0, false)
	if err == nil {
		err = f(events)
	}
	if next = engine.Rest; r.stream.Waiting() {
		next = event.Slack
	}
	return next, err
}

// Drain calls f with the events that were written before the detachment.
func (r *Ring) Drain(f func([]*event.Event) error) error {
	for {
		events, err := r.stream.Read(0, true)
		if err != nil || len(events) == 0 {
			return err
		}
		if err := f(events); err != nil {
			return err
		}
	}
}
