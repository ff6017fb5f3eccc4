package recording

import (
	"encoding/binary"
	"io"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/kind"
)

// Next returns the next of the events that More has found, or io.EOF. The events are in the order
// of their times.
func (r *Reader) Next() (*Event, error) {
	if err := r.advance(); err != nil {
		return nil, err
	}
	if len(r.active) == 0 {
		return nil, io.EOF
	}
	s := r.active[0]
	at, realtime := r.convert(s, s.first.ticks)
	if at > r.until {
		return nil, io.EOF
	}
	r.taken = true
	return &r.event, r.take(s, inOrder(at, r.event.Monotonic), inOrder(realtime, r.event.Realtime))
}

// Each passes each event that More has found to the function that of returns for the number of its
// probe. Each leaves out the events if this is nil. It asks once for each number, in all calls
// together. It is faster than Next, because the events of a shard follow one another, whatever the
// times of the others, and lack only Missing. It ends when goOn, which it calls now and then,
// returns false; another call of More finds the other events again. MoreUntil must not have been
// called with a time.
func (r *Reader) Each(of func(number uint32) func(*Event), goOn func() bool) error {
	if err := r.advance(); err != nil {
		return err
	}
	for len(r.active) > 0 && goOn() {
		if err := r.run(r.active[0], of); err != nil {
			return err
		}
		if _, err := r.refill(); err != nil {
			return err
		}
	}
	return nil
}

// taker holds what Each knows of a probe.
type taker struct {
	probe *Probe
	least uint32 // the size of the smallest record
	texts bool   // whether there are texts, whose lengths must be checked
	asked bool
	take  func(*Event) // or nil
}

// run passes the events of a shard until the next reading of the clocks.
func (r *Reader) run(s *shard, of func(number uint32) func(*Event)) error {
	e, le := &r.event, binary.LittleEndian
	at, _ := r.convert(s, s.first.ticks)
	e.Missing = 0
	r.fillHole(at)
	r.originate(e, s, s.first.origin)
	b := s.rest[:len(s.rest)-s.after]
	for len(b) >= RecordHeadBytes {
		size, number := le.Uint32(b), le.Uint32(b[4:])
		if number >= uint32(len(r.takers)) || !r.takers[number].asked {
			if number > maxProbe {
				break
			}
			if err := r.ask(number, of); err != nil {
				return err
			}
		}
		t := &r.takers[number]
		if size < t.least || uint64(size) > uint64(len(b)) {
			return corrupt("a record has %d bytes for %d arguments", size, len(t.probe.Args))
		}
		e.Probe, e.body, e.Number = t.probe, b[RecordHeadBytes:size], number
		if t.texts {
			if err := e.decode(t.probe, e.body); err != nil {
				return err
			}
		}
		e.Ticks = le.Uint64(b[8:])
		e.Monotonic, e.Realtime = r.convert(s, e.Ticks)
		if e.Goroutine = le.Uint64(b[16:]); s.at.process == 0 {
			r.originate(e, s, e.Goroutine)
		}
		b = b[size:]
		s.next++
		if t.take != nil {
			t.take(e)
		}
	}
	r.fillHole(e.Monotonic)
	s.rest = s.rest[len(s.rest)-s.after-len(b):]
	return nil
}

// ask asks once for the function that takes the events of a probe.
func (r *Reader) ask(number uint32, of func(number uint32) func(*Event)) error {
	p, err := r.probe(number)
	if err != nil {
		return err
	}
	for uint32(len(r.takers)) <= number {
		r.takers = append(r.takers, taker{})
	}
	isText := func(a Arg) bool { return a.Kind == kind.String }
	r.takers[number] = taker{
		probe: p, least: uint32(RecordHeadBytes + 8*len(p.Args)), asked: true,
		texts: slices.ContainsFunc(p.Args, isText), take: of(number),
	}
	return nil
}

// probe returns the probe of an event.
func (r *Reader) probe(number uint32) (*Probe, error) {
	if int(number) >= len(r.probes) {
		// The probe was added after the table was read, and before the record.
		if err := r.readTable(); err != nil {
			return nil, err
		}
		if int(number) >= len(r.probes) {
			return nil, corrupt("an event has the probe %d of %d", number, len(r.probes))
		}
	}
	return r.probes[number], nil
}

// advance removes the event that Next has returned, and puts its shard into its place.
func (r *Reader) advance() error {
	if !r.taken {
		return nil
	}
	r.taken = false
	ok, err := r.refill()
	if ok {
		r.settle()
	}
	return err
}

// refill fills the first active shard, or removes it if it has no further event.
func (r *Reader) refill() (ok bool, err error) {
	if ok, err = r.fill(r.active[0]); !ok && err == nil {
		r.active = slices.Delete(r.active, 0, 1)
	}
	return ok, err
}

// settle moves the first active shard to its place after it has gone on to its next event.
func (r *Reader) settle() {
	s, i := r.active[0], 1
	for ; i < len(r.active) && r.active[i].first.ticks < s.first.ticks; i++ {
		r.active[i-1] = r.active[i]
	}
	r.active[i-1] = s
}

// take sets the event to the first of rest, whose times are given.
func (r *Reader) take(s *shard, monotonic time.Duration, realtime int64) error {
	rec, e := &s.first, &r.event
	p, err := r.probe(rec.number)
	if err != nil {
		return err
	}
	if err := e.decode(p, s.rest[RecordHeadBytes:rec.size]); err != nil {
		return err
	}
	e.Number, e.Ticks, e.Monotonic, e.Realtime = rec.number, rec.ticks, monotonic, realtime
	e.Missing = r.fillHole(monotonic)
	r.originate(e, s, rec.origin)
	s.rest = s.rest[rec.size:]
	s.next++
	return nil
}

// originate sets the process of an event, and its thread or its goroutine.
func (r *Reader) originate(e *Event, s *shard, origin uint64) {
	if e.PID = s.at.process; e.PID != 0 {
		e.Goroutine, e.TID = origin, 0
	} else {
		e.PID, e.TID, e.Goroutine = uint32(origin>>32), uint32(origin), 0
	}
	known := r.process
	if known != nil {
		e.Pod = known.Pod
	}
	switch {
	case known != nil && known.PID != 0:
		e.PID, e.Executable = known.PID, known.Executable
	case e.PID == r.head.PID:
		e.Executable = r.head.Executable
	default:
		e.Executable = ""
	}
}

// convert returns CLOCK_MONOTONIC and CLOCK_REALTIME of a moment after a shard's reading, and
// before the next one if that is known. A moment up to a second before the reading is converted
// too: a thread may read its clock before another thread does, and write after it.
func (r *Reader) convert(s *shard, ticks uint64) (time.Duration, int64) {
	ns := int64(ticks - s.reading.Ticks)
	if r.head.Clock == Counter {
		ns = int64(float64(ns) * s.perTick)
	}
	return Bounded(time.Duration(s.reading.Monotonic + ns)), Bounded(s.reading.Realtime + ns)
}

// fillHole returns the number of missing events before an event of a time, without events that were
// already counted. The hole ends when every shard has its events again.
func (r *Reader) fillHole(at time.Duration) (missing uint64) {
	for len(r.drops) > 0 && at >= time.Duration(r.drops[0].until.Monotonic) {
		d := r.drops[0]
		r.drops, r.hole = r.drops[1:], r.hole+d.events
		if until := time.Duration(d.until.Monotonic); until > r.whole {
			r.whole, r.wholeAt = until, d.until.Realtime
		}
	}
	if r.hole > 0 && at >= r.whole {
		missing, r.hole = r.hole, 0
		r.missing.Until = r.wholeAt
		if r.began {
			r.missing.Between += missing
		} else {
			r.missing.Before += missing
		}
	}
	r.began = true
	return missing
}

// inOrder returns a time, or the time of the event before if that is a little later: the readings
// of shards differ a little (see skew).
func inOrder[T ~int64](at, before T) T {
	if d := before - at; d > 0 && d < T(skew) {
		return before
	}
	return at
}
