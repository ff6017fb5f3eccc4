package recording

import (
	"encoding/binary"
	"io"
	"slices"

	"github.com/go-stapsdt/stapsdt/internal/recording/barrier"
)

// chunkHead is the head of a chunk.
type chunkHead struct {
	sequence  uint64
	shard     uint32
	process   uint32
	before    uint64
	reading   Reading
	committed uint64
	dropped   uint64 // by the whole recording before the chunk
	cut       bool   // the file has fewer records than were committed
}

func decodeChunkHead(b []byte) chunkHead {
	le := binary.LittleEndian
	return chunkHead{
		sequence:  le.Uint64(b[OffSequence:]),
		shard:     le.Uint32(b[OffShard:]),
		process:   le.Uint32(b[OffProcess:]),
		before:    le.Uint64(b[OffBefore:]),
		reading:   readingAt(b[OffReading:]),
		committed: le.Uint64(b[OffCommitted:]),
		dropped:   le.Uint64(b[OffDroppedBefore:]),
	}
}

// check returns an error if no chunk in use can have the head.
func (c *chunkHead) check(h *Head) error {
	switch {
	case c.shard >= h.Shards:
		return corrupt("a chunk has the shard %d of %d", c.shard, h.Shards)
	case c.committed > ChunkBytes-ChunkHeadBytes || c.committed%8 != 0:
		return corrupt("a chunk has %d bytes of records", c.committed)
	}
	return nil
}

// source reads the chunks of a recording that may be written meanwhile.
type source struct {
	file io.ReaderAt
	head *Head
	size int64 // size of the file
	live bool  // the file is memory to which a program appends
	buf  [ChunkHeadBytes]byte
}

// chunks returns the number of chunks that begin in the file.
func (s *source) chunks() uint64 {
	room := s.size - s.head.ChunkOffset(0) - ChunkHeadBytes
	if room < 0 {
		return 0
	}
	return min(s.head.Chunks, uint64(room)/ChunkBytes+1)
}

// chunkHead reads the head of a chunk as it is now, unless the chunk is empty or being reused.
func (s *source) chunkHead(index uint64) (c chunkHead, ok bool, err error) {
	for range 3 {
		if c, err = s.readHead(index); err != nil || c.sequence == 0 {
			return c, false, err
		}
		again, err := s.readHead(index)
		if err != nil {
			return c, false, err
		}
		if again.sequence == c.sequence {
			// The head that was read first belongs to this sequence as a whole. The smaller size is
			// right even if the kernel copied one of the sizes in two parts.
			c.committed = min(c.committed, again.committed)
			err := s.fit(&c, index)
			return c, err == nil, err
		}
	}
	return c, false, nil
}

// headOnce is chunkHead with one read. If the chunk is reused meanwhile, the head may be a mixture
// of two: records reports that. If records are appended meanwhile, the size may be one.
func (s *source) headOnce(index uint64) (c chunkHead, ok bool, err error) {
	if c, err = s.readHead(index); err != nil || c.sequence == 0 {
		return c, false, err
	}
	err = s.fit(&c, index)
	return c, err == nil, err
}

// fit checks the head of a chunk, and limits its size to what the file has.
func (s *source) fit(c *chunkHead, index uint64) error {
	if err := c.check(s.head); err != nil {
		return err
	}
	room := uint64(s.size-s.head.ChunkOffset(index)-ChunkHeadBytes) &^ 7
	if c.committed > room {
		c.committed, c.cut = room, true
	}
	return nil
}

// has reports whether a word of the file has a value.
func (s *source) has(offset int64, value uint64) (bool, error) {
	word, err := s.word(offset)
	return err == nil && word == value, err
}

// word reads a word of the file.
func (s *source) word(offset int64) (uint64, error) {
	b := s.buf[:8]
	if err := readFull(s.file, b, offset); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// sequence reads the sequence number of a chunk. If it has changed, the caller reads the whole
// head.
func (s *source) sequence(index uint64) (uint64, error) {
	sequence, err := s.word(s.head.ChunkOffset(index) + OffSequence)
	barrier.Load()
	return sequence, err
}

func (s *source) readHead(index uint64) (chunkHead, error) {
	if err := readFull(s.file, s.buf[:], s.head.ChunkOffset(index)); err != nil {
		return chunkHead{}, err
	}
	barrier.Load()
	return decodeChunkHead(s.buf[:]), nil
}

// records appends the records of a part of a chunk to dst, and reports whether the chunk still has
// the sequence number with which it was found.
func (s *source) records(dst []byte, p place) (records []byte, ok bool, err error) {
	dst = slices.Grow(dst, ChunkBytes)[:p.committed-p.from]
	at := s.head.ChunkOffset(p.index) + ChunkHeadBytes + int64(p.from)
	if err := readFull(s.file, dst, at); err != nil {
		return nil, false, err
	}
	barrier.Load()
	again, err := s.readHead(p.index)
	return dst, err == nil && again.sequence == p.sequence, err
}

// readFull fills b. The end of the file is an error, because a recording has its whole size.
func readFull(r io.ReaderAt, b []byte, offset int64) error {
	n, err := r.ReadAt(b, offset)
	if n == len(b) {
		return nil
	}
	if err == io.EOF || err == nil {
		return corrupt("it ends before byte %d", offset+int64(len(b)))
	}
	return err
}

// put encodes the head.
func (c *chunkHead) put(b []byte) {
	le := binary.LittleEndian
	le.PutUint64(b[OffSequence:], c.sequence)
	le.PutUint32(b[OffShard:], c.shard)
	le.PutUint32(b[OffProcess:], c.process)
	le.PutUint64(b[OffBefore:], c.before)
	c.reading.Put(b[OffReading:])
	le.PutUint64(b[OffCommitted:], c.committed)
	le.PutUint64(b[OffDroppedBefore:], c.dropped)
}
