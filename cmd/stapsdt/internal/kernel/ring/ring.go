//go:build linux

// Package ring reads the records of events that BPF programs write, in the order of their times.
package ring

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/internal/clock"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
)

// Ring is a ring buffer to which programs send their events. It returns them in the order of their
// times.
type Ring struct {
	env     *bpf.Env
	events  *ebpf.Map
	traces  []*bpf.Trace // by program ID
	reader  *ringbuf.Reader
	pending []*layout.Event
	free    []*layout.Event
	ready   []*layout.Event
}

// Slack is the maximum delay between an event's time and its appearance in the ring: the program
// takes the time just before it reserves the record, and can be interrupted in between.
const Slack = 10 * time.Millisecond

// NewRing returns a ring of size bytes, a power of two.
func NewRing(env *bpf.Env, name string, size uint32) (r *Ring, err error) {
	r = &Ring{env: env}
	spec := ebpf.MapSpec{Name: name, Type: ebpf.RingBuf, MaxEntries: size}
	if r.events, err = ebpf.NewMap(&spec); err != nil {
		return nil, bpf.MapError(err)
	}
	if r.reader, err = ringbuf.NewReader(r.events); err != nil {
		r.events.Close()
		return nil, bpf.Refused(bpf.CreateMap, "the events cannot be read", err)
	}
	return r, nil
}

// Close releases the ring, which may be nil.
func (r *Ring) Close() {
	if r != nil {
		r.reader.Close()
		r.events.Close()
	}
}

// Add returns a section that sends a program's events to the ring. Their ID is the number of
// programs added before.
func (r *Ring) Add(tr *bpf.Trace) (*bpf.Section, error) {
	section, err := tr.Section(r.env, r.events, uint32(len(r.traces)))
	if err == nil {
		r.traces = append(r.traces, tr)
	}
	return section, err
}

// FD returns a descriptor that is readable when the ring has events.
func (r *Ring) FD() int { return r.events.FD() }

// Waiting reports whether there are events whose order is not certain yet.
func (r *Ring) Waiting() bool { return len(r.pending) > 0 }

// Read waits for events, at most for the time wait, and returns the events whose order is
// certain. If drain is set, it does not wait, and returns no events only when the ring had none.
func (r *Ring) Read(wait time.Duration, drain bool) ([]*layout.Event, error) {
	r.free = append(r.free, r.ready...)
	r.ready = r.ready[:0]
	if len(r.pending) > 0 {
		wait = min(wait, Slack)
	}
	if drain {
		wait = 0
	}
	r.reader.SetDeadline(time.Now().Add(wait))
	// Events that were written before now will have been read when the ring is empty.
	certain := clock.Now() - Slack
	const batch = 4096
	emptied := false
	for i := 0; ; i++ {
		if i > 0 && i%batch == 0 {
			// The ring is almost in order.
			certain = r.pending[len(r.pending)-1].Time - Slack
			isCertain := func(e *layout.Event) bool { return e.Time < certain }
			if !drain || slices.ContainsFunc(r.pending, isCertain) {
				break
			}
		}
		var record ringbuf.Record
		e := r.take()
		record.RawSample = e.Raw
		err := r.reader.ReadInto(&record)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			r.free = append(r.free, e)
			emptied = true
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read events: %w", err)
		}
		e.Raw = record.RawSample
		if err := r.decode(e); err != nil {
			return nil, err
		}
		r.pending = append(r.pending, e)
		if i == 0 { // wait only for the first event
			r.reader.SetDeadline(time.Unix(1, 0))
		}
	}
	slices.SortStableFunc(r.pending, func(a, b *layout.Event) int {
		return cmp.Compare(a.Time, b.Time)
	})
	n := len(r.pending)
	if !drain || !emptied {
		byTime := func(e *layout.Event, t time.Duration) int { return cmp.Compare(e.Time, t) }
		n, _ = slices.BinarySearchFunc(r.pending, certain, byTime)
	}
	r.ready = append(r.ready, r.pending[:n]...)
	r.pending = slices.Delete(r.pending, 0, n)
	return r.ready, nil
}

func (r *Ring) take() *layout.Event {
	if n := len(r.free); n > 0 {
		e := r.free[n-1]
		r.free = r.free[:n-1]
		return e
	}
	return new(layout.Event)
}

func (r *Ring) decode(e *layout.Event) error {
	if len(e.Raw) >= layout.EventHeader {
		word := func(at int) uint64 { return binary.NativeEndian.Uint64(e.Raw[at:]) }
		e.Time = layout.At(word(layout.EventTime))
		e.ID = uint32(word(layout.EventID))
		e.TID, e.PID = uint32(word(layout.EventPID)), uint32(word(layout.EventPID)>>32)
		if int(e.ID) < len(r.traces) && len(e.Raw) == r.traces[e.ID].Size {
			fillIn(e, r.traces[e.ID])
			return nil
		}
	}
	return fmt.Errorf("read events: a record has %d bytes", len(e.Raw))
}

// fillIn adds the executable of the process to an event. It stays missing if the thread has ended
// or has been renamed since the event: the process may have executed another program.
func fillIn(e *layout.Event, tr *bpf.Trace) {
	if len(tr.Executables) == 0 || e.PID == 0 {
		return
	}
	file := proc.Executable(int(e.PID))
	if file == "" || proc.Comm(int(e.PID), int(e.TID)) != string(e.Comm()) {
		return
	}
	for _, i := range tr.Executables {
		e.SetText(tr.Items, i, path.Base(file))
	}
}
