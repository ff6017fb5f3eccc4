package recording

import (
	"bytes"
	"cmp"
	"io"
	"slices"
)

// Snapshot copies a recording that is being written. As far as possible, the copy lacks only the
// oldest events: chunks that are reused while it copies are missing as a whole, and the newest are
// copied first. It needs as much memory as the recording takes, which is size, whatever the file
// claims.
func Snapshot(file io.ReaderAt, size int64) (io.ReaderAt, error) {
	head, err := readHead(file)
	if err != nil {
		return nil, err
	}
	if head.Size() != size {
		return nil, corrupt("it has %d bytes, but its head states %d", size, head.Size())
	}
	type found struct{ index, sequence uint64 }
	var chunks []found
	src := source{file: file, head: head, size: size}
	for i := range head.Chunks {
		c, ok, err := src.chunkHead(i)
		if err != nil {
			return nil, err
		}
		if ok {
			chunks = append(chunks, found{i, c.sequence})
		}
	}
	slices.SortFunc(chunks, func(a, b found) int { return cmp.Compare(b.sequence, a.sequence) })
	b := make([]byte, head.Size())
	for _, c := range chunks {
		at := head.ChunkOffset(c.index)
		if err := src.copyChunk(b[at:at+ChunkBytes], c.index, c.sequence); err != nil {
			return nil, err
		}
	}
	// The table last, so that it has the probes of all copied events.
	if err := readFull(file, b[:head.ChunkOffset(0)], 0); err != nil {
		return nil, err
	}
	return bytes.NewReader(b), nil
}

// copyChunk copies a chunk, or leaves b zero if it has been reused.
func (s *source) copyChunk(b []byte, index, sequence uint64) error {
	c, ok, err := s.chunkHead(index)
	if err != nil || !ok || c.sequence != sequence {
		return err
	}
	records := b[ChunkHeadBytes:][:c.committed]
	if err := readFull(s.file, records, s.head.ChunkOffset(index)+ChunkHeadBytes); err != nil {
		return err
	}
	again, ok, err := s.chunkHead(index)
	if err != nil || !ok || again.sequence != sequence {
		clear(b)
		return err
	}
	c.put(b)
	return nil
}
