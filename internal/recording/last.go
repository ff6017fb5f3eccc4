package recording

import "io"

// LastEvent returns the time of the last event of a recording by CLOCK_REALTIME, or 0 if it has
// none. It reads the heads of all chunks, and the records of each shard's newest chunk.
func LastEvent(file io.ReaderAt, size int64) (last int64, err error) {
	r, err := NewPart(file, size)
	if err != nil {
		return 0, err
	}
	if err := r.findParts(); err != nil {
		return 0, err
	}
	for i := range r.shards {
		s := &r.shards[i]
		if len(s.pending) == 0 {
			continue
		}
		newest := s.pending[len(s.pending)-1]
		var ok bool
		if s.buf, ok, err = r.src.records(s.buf, newest); err != nil {
			return 0, err
		} else if ok {
			s.reading = newest.reading
			last = max(last, r.lastOf(s))
		}
		s.buf = nil
	}
	return last, nil
}

// lastOf returns the time of the last event in a shard's buf, by CLOCK_REALTIME.
func (r *Reader) lastOf(s *shard) (last int64) {
	s.perTick = r.rate.between(s.reading, Reading{})
	for b := wholeRecords(s.buf); len(b) > 0; {
		rec, _ := recordAt(b)
		if reading, ok := rec.reading(b); ok {
			s.reading = reading
			s.perTick = r.rate.between(s.reading, Reading{})
		} else if rec.number != ReadingRecord {
			_, at := r.convert(s, rec.ticks)
			last = max(last, at)
		}
		b = b[rec.size:]
	}
	return last
}
