package recording

import (
	"slices"
	"time"
)

// window is the range of times by CLOCK_REALTIME outside of which events need not be read.
type window struct {
	since, until int64
	sequences    []uint64 // of the chunks that were known when it was set, in their order
}

// Within lets Next and Each pass over chunks without an event in a range of times by
// CLOCK_REALTIME, whose ends are in the range. They still return some events outside of it.
// The events within, Lost and Missing are those of reading everything, except that damage in
// a chunk that is passed over is not noticed. More must have been called.
func (r *Reader) Within(since, until int64) {
	r.window = &window{since: since, until: until}
	for i := range r.chunks {
		if c := &r.chunks[i]; c.used {
			r.window.sequences = append(r.window.sequences, c.sequence)
		}
	}
	slices.Sort(r.window.sequences)
	r.window.sequences = slices.Compact(r.window.sequences)
}

// passOver leaves out the chunks of a shard that have no event within the window. It keeps the
// shard's first chunk, which More has read, and its last: they show where the shard has lost
// events.
func (r *Reader) passOver(s *shard) {
	for len(s.pending) > 1 {
		p, next := &s.pending[0], &s.pending[1]
		whole := p.from == 0 && !p.cut && p.before == s.next && next.before >= p.before
		if !whole || next.committed == 0 || !r.window.follows(p, next) {
			return
		}
		first, last := r.span(p, next)
		if last >= r.window.since && first <= r.window.until {
			return
		}
		s.next, s.pending = next.before, s.pending[1:]
	}
}

// follows reports whether a shard has gone on from one chunk to another directly: no chunk of any
// shard is missing between them.
func (w *window) follows(p, next *place) bool {
	i, ok := slices.BinarySearch(w.sequences, p.sequence)
	distance := next.sequence - p.sequence
	return ok && distance < uint64(len(w.sequences)-i) &&
		w.sequences[i+int(distance)] == next.sequence
}

// span returns times by CLOCK_REALTIME between which all events of a chunk are. next is the next
// chunk of its shard, which was begun after the last of them.
//
// The time of day may be set once between the two readings: then the events are between the first
// reading and the time at which the chunk would have ended, or between that at which it would have
// begun and the second reading.
func (r *Reader) span(p, next *place) (first, last int64) {
	reading, end := p.reading, next.reading
	perTick := 1.0
	if r.head.Clock == Counter {
		perTick = r.rate.between(reading, end)
	}
	took := int64(float64(int64(end.Ticks-reading.Ticks)) * perTick)
	took = min(max(took, earliest), -earliest)
	// The rates between the readings within the chunk differ a little from this one.
	slack := int64(skew) + max(took, 0)/1024
	last = max(Bounded(reading.Realtime)+took, Bounded(end.Realtime)) + slack
	if p.process != r.head.PID && r.head.Clock != Counter {
		return earliest, last // the events were read by another process, at any time after theirs
	}
	// A thread may read its clock up to a second before another one begins the chunk.
	slack += int64(time.Second)
	return min(Bounded(reading.Realtime), Bounded(end.Realtime)-took) - slack, last
}
