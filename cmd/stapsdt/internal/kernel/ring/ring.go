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
	rest    time.Duration // the time between two reads while there are events
	traces  []*bpf.Trace  // by program ID
	reader  *ringbuf.Reader
	record  ringbuf.Record // a variable of next would be allocated for each event
	emptied bool           // whether the last Read has left nothing
	pending []*layout.Event
	free    []*layout.Event
	ready   []*layout.Event
}

// slack is the maximum delay between an event's time and its appearance in the ring: the program
// takes the time just before it reserves the record, and can be interrupted in between.
const slack = 10 * time.Millisecond

// fillRate is the number of bytes a second that a ring can take: they fill half of it between two
// reads.
const fillRate = 512 << 20

// NewRing returns a ring of size bytes, a power of two.
func NewRing(env *bpf.Env, name string, size uint32) (r *Ring, err error) {
	half := time.Duration(size/2) * time.Second / fillRate
	r = &Ring{env: env, rest: min(half, slack)}
	spec := ebpf.MapSpec{Name: name, Type: ebpf.RingBuf, MaxEntries: size}
	if r.events, err = ebpf.NewMap(&spec); err != nil {
		return nil, bpf.MapError(err)
	}
	if r.reader, err = ringbuf.NewReader(r.events); err != nil {
		r.events.Close()
		return nil, bpf.Refused(bpf.CreateMap, "the events cannot be read", err)
	}
	r.reader.SetDeadline(time.Unix(1, 0)) // reads do not wait
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

// FDs returns the descriptors that are readable when it is time for a Read. While the order of
// events is uncertain, there are none, and Next returns the time of the Read that delivers them.
// Otherwise the kernel would wake the reader for each event that finds the ring empty, which takes
// the reader far longer than reading it.
func (r *Ring) FDs() []int {
	if r.emptied && len(r.pending) > 0 {
		return nil
	}
	return []int{r.events.FD()}
}

// Waiting reports whether there are events whose order is not certain yet.
func (r *Ring) Waiting() bool { return len(r.pending) > 0 }

// Next returns the time after which to call Read although no descriptor is readable, at most the
// time most.
func (r *Ring) Next(most time.Duration) time.Duration {
	if r.Waiting() {
		return min(most, r.rest)
	}
	return most
}

// batch is the number of events after which a Read returns.
const batch = 4096

// Read returns the events whose order is certain. It does not wait for events. If drain is set, it
// returns all events, and none only when the ring had none.
func (r *Ring) Read(drain bool) ([]*layout.Event, error) {
	r.free = append(r.free, r.ready...)
	r.ready = r.ready[:0]
	// Events that were written before now will have been read when the ring is empty.
	certain := clock.Now() - slack
	r.emptied = r.reader.AvailableBytes() == 0
	for i := 1; !r.emptied; i++ {
		if err := r.next(); err != nil {
			return nil, err
		}
		if i%batch == 0 && !r.emptied {
			// The ring is almost in order.
			certain = r.pending[len(r.pending)-1].Time - slack
			isCertain := func(e *layout.Event) bool { return e.Time < certain }
			if !drain || slices.ContainsFunc(r.pending, isCertain) {
				break
			}
		}
	}
	compare := func(a, b *layout.Event) int { return cmp.Compare(a.Time, b.Time) }
	if !slices.IsSortedFunc(r.pending, compare) {
		slices.SortStableFunc(r.pending, compare)
	}
	n := len(r.pending)
	if !drain || !r.emptied {
		byTime := func(e *layout.Event, t time.Duration) int { return cmp.Compare(e.Time, t) }
		n, _ = slices.BinarySearchFunc(r.pending, certain, byTime)
	}
	r.ready = append(r.ready, r.pending[:n]...)
	r.pending = slices.Delete(r.pending, 0, n)
	return r.ready, nil
}

// next reads an event of a ring that is not empty, unless the rest of it are records that programs
// have discarded.
func (r *Ring) next() error {
	e := r.take()
	r.record = ringbuf.Record{RawSample: e.Raw}
	err := r.reader.ReadInto(&r.record)
	e.Raw = r.record.RawSample
	r.emptied = r.record.Remaining == 0
	if err == nil {
		err = r.decode(e)
	}
	if err != nil {
		r.free = append(r.free, e)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		return fmt.Errorf("read events: %w", err)
	}
	r.pending = append(r.pending, e)
	return nil
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
	return fmt.Errorf("a record has %d bytes", len(e.Raw))
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
