package recording

import (
	"cmp"
	"slices"
)

// drop counts events that were committed to no chunk, before a chunk was begun and after the chunk
// before it was.
type drop struct {
	events uint64
	until  Reading
}

// placeDrops finds the times of the events that had found no room when the recording was opened.
// Those after the beginning of the newest chunk stay unplaced.
func (r *Reader) placeDrops() {
	var chunks []*chunkHead
	for i := range r.chunks {
		if c := &r.chunks[i].chunkHead; c.sequence != 0 && c.dropped > 0 {
			chunks = append(chunks, c)
		}
	}
	slices.SortFunc(chunks, func(a, b *chunkHead) int {
		return cmp.Compare(a.sequence, b.sequence)
	})
	placed, all := uint64(0), r.unplaced
	for _, c := range chunks {
		// More may have been dropped since the head was read, and a damaged number can be anything.
		if until := min(c.dropped, all); until > placed {
			r.drops = append(r.drops, drop{until - placed, c.reading})
			placed = until
		}
	}
	r.unplaced -= placed
}
