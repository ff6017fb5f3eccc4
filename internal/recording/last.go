package recording

import "io"

// LastEvent returns the time of the last event of a recording by CLOCK_REALTIME, or 0 if it has
// none. It reads the heads of all chunks, and the records of a few.
func LastEvent(file io.ReaderAt, size int64) (last int64, err error) {
	r, err := NewPart(file, size)
	if err != nil {
		return 0, err
	}
	if err := r.findParts(); err != nil {
		return 0, err
	}
	return r.LastRealtime()
}

// LastRealtime returns the time of the last event of a recording by CLOCK_REALTIME, or 0 if it has
// none. It does not read on. More must have been called, and Next must not. It reads each shard's
// newest chunk, and others only if the time of day has been set back since.
func (r *Reader) LastRealtime() (last int64, err error) {
	for _, newest := range []bool{true, false} {
		for i := range r.shards {
			s := &r.shards[i]
			p := s.at // which is in memory, or empty
			p.from = 0
			for i := -1; i < len(s.pending); i++ {
				if i >= 0 {
					p = s.pending[i]
				}
				next := s.pending[i+1:]
				if newest != (len(next) == 0) || p.sequence == 0 {
					continue
				}
				if !newest {
					if _, until := r.span(&p, &next[0]); until <= last {
						continue
					}
				}
				at, err := r.lastOf(p, next)
				if err != nil {
					return 0, err
				}
				last = max(last, at)
			}
		}
	}
	return last, nil
}

// lastOf returns the time of the last event of a chunk by CLOCK_REALTIME, or 0 if it has none. It
// ignores what is damaged.
func (r *Reader) lastOf(p place, next []place) (last int64, err error) {
	b, ok, err := r.src.records(nil, p)
	if err != nil || !ok {
		return 0, err
	}
	s := &shard{at: p, reading: p.reading, rest: wholeRecords(b), pending: next}
	r.lookAhead(s)
	for {
		if ok, err := r.skip(s); !ok || err != nil {
			return last, nil
		}
		_, at := r.convert(s, s.first.ticks)
		last = max(last, at)
		s.rest = s.rest[s.first.size:]
	}
}
