package recording

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/recording/barrier"
)

// knownChunk is the Reader's copy of a chunk's head. It is empty if its sequence number is 0.
type knownChunk struct {
	chunkHead
	full bool // its shard had gone on to another chunk before the head was read
	used bool // the last look has found the head
}

// findParts finds the parts of chunks that were not read yet. While it looks at the heads of all
// chunks, a shard may go on from a chunk that findParts has looked at to a later one: the events
// that are committed between the two looks would seem to be lost. OffLatest shows whether any did.
// If so, findParts looks at all heads again, and takes no chunk that is newer than the chunks of
// the first look: all older ones are then full.
func (r *Reader) findParts() error {
	if err := r.look(r.src.headOnce); err != nil {
		return err
	}
	renewed := r.findNewest()
	settled, err := r.confirm()
	if err != nil {
		return err
	}
	if renewed && !settled {
		for i := range r.shards {
			r.shards[i].begun = r.shards[i].newest
		}
		if err := r.look(r.src.chunkHead); err != nil {
			return err
		}
	}
	for i := range r.chunks {
		c := &r.chunks[i]
		c.full = c.full || settled && c.used && c.sequence < r.shards[c.shard].newest
	}
	r.collect()
	return nil
}

// maxBegun is the maximum number of chunks that are begun at the same time. If more are, look finds
// those after them when they are readable, which changes OffLatest.
const maxBegun = 16

// look reads the heads of all chunks that can have changed.
func (r *Reader) look(read func(uint64) (chunkHead, bool, error)) error {
	var err error
	if r.latest, err = r.src.word(OffLatest); err != nil {
		return err
	}
	barrier.Load()
	changed := r.readings == nil
	chunks := r.src.chunks()
	if r.chunks == nil && r.src.size < math.MaxInt64 {
		r.chunks = make([]knownChunk, 0, chunks)
	}
	unused := 0 // consecutive chunks
	for i := range chunks {
		if r.src.live && i >= r.latest && unused >= min(len(r.shards), maxBegun) {
			break
		}
		// only chunks in the file take memory, whatever the head claims
		if i == uint64(len(r.chunks)) {
			r.chunks = append(r.chunks, knownChunk{})
		}
		known := &r.chunks[i]
		before := known.sequence
		if known.used, err = r.renew(known, i, read); err != nil {
			return err
		}
		if unused++; known.used {
			unused = 0
		}
		changed = changed || known.sequence != before && r.isNew(known.reading)
	}
	if r.readings == nil {
		r.placeDrops()
	}
	if changed {
		r.learn()
	}
	return nil
}

// renew reads the head of a chunk, unless the chunk is full and has not been reused. It reports
// false if the chunk is empty or being reused. No writer changes a full chunk, and if others do,
// its records are checked when they are read.
func (r *Reader) renew(
	known *knownChunk, index uint64, read func(uint64) (chunkHead, bool, error),
) (ok bool, err error) {
	if known.full {
		sequence, err := r.src.sequence(index)
		if err != nil || sequence == known.sequence {
			return err == nil, err
		}
	}
	c, ok, err := read(index)
	if err != nil || !ok {
		return false, err
	}
	*known = knownChunk{chunkHead: c, full: c.sequence < r.shards[c.shard].begun}
	return true, nil
}

// findNewest finds each shard's newest chunk and the one before it, and reports whether there are
// chunks that are newer than those that were read.
func (r *Reader) findNewest() (renewed bool) {
	for i := range r.shards {
		s := &r.shards[i]
		s.newest, s.last, s.unread = s.at.sequence, [2]int{-1, -1}, 0
	}
	for i := range r.chunks {
		c := &r.chunks[i]
		if !c.used {
			continue
		}
		s := &r.shards[c.shard]
		if c.sequence > s.at.sequence {
			renewed = true
			s.unread++
		}
		s.newest = max(s.newest, c.sequence)
		switch last := &s.last; {
		case last[0] < 0 || c.sequence > r.chunks[last[0]].sequence:
			last[0], last[1] = i, last[0]
		case last[1] < 0 || c.sequence > r.chunks[last[1]].sequence:
			last[1] = i
		}
	}
	return renewed
}

// confirm reads the heads again of the chunks to which shards may have appended during the look:
// each shard's newest chunk and, if that was begun meanwhile, the one before it, which is full now.
// It reports whether all heads belong together: no chunk that has a record was begun during the
// look.
func (r *Reader) confirm() (settled bool, err error) {
	settled = r.head.Minor >= latestMinor
	for i := range r.shards {
		for age, index := range r.shards[i].last {
			if index < 0 || r.chunks[index].full {
				continue
			}
			known := &r.chunks[index]
			c, ok, err := r.src.headOnce(uint64(index))
			switch {
			case err != nil:
				return false, err
			case !ok || c.sequence != known.sequence:
				settled = false
			case age > 0 || c.committed < known.committed:
				known.chunkHead = c
			}
		}
	}
	same, err := r.src.has(OffLatest, r.latest)
	return settled && same, err
}

// collect makes the parts of chunks that were not read yet, and are not newer than the newest of
// their shards, the pending ones of their shards.
func (r *Reader) collect() {
	r.behind, r.current = false, r.current[:0]
	for i := range r.shards {
		s := &r.shards[i]
		s.pending = make([]place, 0, s.unread)
	}
	for i := range r.chunks {
		known := &r.chunks[i]
		if !known.used {
			continue
		}
		if !known.full {
			r.current = append(r.current, uint64(i))
		}
		s := &r.shards[known.shard]
		switch p := (place{index: uint64(i), chunkHead: known.chunkHead}); {
		case p.sequence > s.newest:
			r.behind = true
		case p.sequence > s.at.sequence:
			s.pending = append(s.pending, p)
		case p.sequence == s.at.sequence && p.committed > s.at.from:
			p.from = s.at.from
			s.pending = append(s.pending, p)
		}
	}
	for i := range r.shards {
		slices.SortFunc(
			r.shards[i].pending,
			func(a, b place) int { return cmp.Compare(a.sequence, b.sequence) },
		)
	}
}

const (
	// spareChunks is the number of unused chunks at which areChunksQuiet looks. A writer takes them
	// in their order, but a thread can be interrupted before its chunk is readable, while those of
	// others are: every thoroughQuiet-th time, it looks at all. isQuiet looks at the number of
	// dropped events as often.
	spareChunks   = 2
	thoroughQuiet = 10
)

// isQuiet reports whether nothing was committed or dropped since findParts looked at all chunks,
// after which all events were read. A command may wait for thousands of silent programs: isQuiet
// reads one word of the head, sometimes two, and the sizes of those chunks that may grow. The head
// of an early version lacks one of the words: then it reads a word of each chunk that was used, and
// reports false if it has to be thorough.
func (r *Reader) isQuiet(thorough bool) (bool, error) {
	if r.behind {
		return false, nil
	}
	r.quiet++
	// In silence, dropped events may be counted later.
	if thorough || r.quiet%thoroughQuiet == 0 || r.head.Minor < latestMinor {
		if same, err := r.src.has(OffDropped, r.head.Dropped); !same {
			return false, err
		}
	}
	if r.head.Minor < latestMinor {
		if thorough || len(r.chunks) == 0 || uint64(len(r.chunks)) < r.src.chunks() {
			return false, nil
		}
		return r.areChunksQuiet()
	}
	same, err := r.src.has(OffLatest, r.latest)
	for i := 0; same && i < len(r.current); i++ {
		c := r.current[i]
		same, err = r.src.has(r.head.ChunkOffset(c)+OffCommitted, r.chunks[c].committed)
	}
	return same, err
}

// areChunksQuiet is isQuiet for chunks, without OffLatest. It looks at some of the unused chunks
// only.
func (r *Reader) areChunksQuiet() (bool, error) {
	spare := spareChunks
	if r.quiet%thoroughQuiet == 0 {
		spare = len(r.chunks)
	}
	for i := range r.chunks {
		c, at := &r.chunks[i], r.head.ChunkOffset(uint64(i))
		if c.sequence == 0 {
			if spare--; spare < 0 {
				break
			}
		}
		same, err := r.src.has(at+OffSequence, c.sequence)
		if same && c.sequence != 0 && !c.full {
			same, err = r.src.has(at+OffCommitted, c.committed)
		}
		if !same {
			return false, err
		}
	}
	return true, nil
}

// isNew reports whether a reading is so much newer than the readings from which the rate was
// learned that the rate should be learned again. It also reports true if the reading is older than
// the latest of them, which may have been damaged.
func (r *Reader) isNew(reading Reading) bool {
	const enough = int64(100 * time.Millisecond)
	since := reading.Monotonic - r.learned
	return since < 0 || since >= min(enough, (r.learned-r.head.Reading.Monotonic)/4)
}

// learn learns the rate of the recording's clock from the readings of all chunks.
func (r *Reader) learn() {
	r.readings = append(r.readings[:0], r.head.Reading)
	for i := range r.chunks {
		if r.chunks[i].sequence != 0 {
			r.readings = append(r.readings, r.chunks[i].reading)
		}
	}
	r.rate.learn(r.readings)
	r.learned = r.readings[len(r.readings)-1].Monotonic
	for i := range r.shards {
		s := &r.shards[i]
		s.perTick = r.rate.between(s.reading, s.until)
	}
}
