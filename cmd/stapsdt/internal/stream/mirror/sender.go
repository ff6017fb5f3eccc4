package mirror

import (
	"cmp"
	"io"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/barrier"
)

const (
	// frameRoom is the size from which on no chunk is added to a frame.
	frameRoom = 512 << 10
	// busyPause is the pause after a frame with records, and idlePause the pause after a look that
	// has found none. A frame without records is sent when none was sent for beat.
	busyPause = 10 * time.Millisecond
	idlePause = 25 * time.Millisecond
	beat      = 100 * time.Millisecond
)

// Sender sends a recording that may be written meanwhile.
type Sender struct {
	out    io.Writer
	from   io.ReaderAt
	head   recording.Head // as it was sent
	begun  bool           // the first frame was sent
	chunks []chunk        // as they were sent
	found  []chunk        // buffer of look
	frame  []byte         // buffer
}

// chunk is what a Sender knows of a chunk. It is empty if the sequence number is 0.
type chunk struct {
	index     uint64
	sequence  uint64
	shard     uint32
	committed uint64
}

// newChunk decodes the head of a chunk.
func newChunk(index uint64, b []byte) chunk {
	return chunk{
		index, le.Uint64(b[recording.OffSequence:]), le.Uint32(b[recording.OffShard:]),
		le.Uint64(b[recording.OffCommitted:]),
	}
}

// NewSender returns a Sender of a recording, which sends nothing yet.
func NewSender(out io.Writer, from io.ReaderAt) (*Sender, error) {
	s := &Sender{out: out, from: from}
	head, err := s.readHead()
	if err != nil {
		return nil, err
	}
	s.head, s.chunks = *head, make([]chunk, head.Chunks)
	s.head.TableUsed = 0
	return s, nil
}

// Run sends frames until ended is closed, and then the rest of the recording.
func (s *Sender) Run(ended <-chan struct{}) error {
	for sent := (time.Time{}); ; {
		isFull, err := s.build()
		if err != nil {
			return err
		}
		isEmpty, pause := s.isEmpty(), busyPause
		if isEmpty {
			pause = idlePause
		}
		if !isEmpty || time.Since(sent) >= beat {
			if _, err := s.write(); err != nil {
				return err
			}
			sent = time.Now()
		}
		if isFull {
			pause = 0
		}
		select {
		case <-ended:
			return s.finish()
		case <-time.After(pause):
		}
	}
}

// finish sends the rest of a recording whose writer has ended.
func (s *Sender) finish() error {
	for {
		isFull, err := s.build()
		if err != nil {
			return err
		}
		if !isFull {
			s.frame[frameHeadBytes+offBits] |= last
		}
		again, err := s.write()
		if err != nil || !isFull && !again {
			return err
		}
	}
}

// Send sends a frame with what was written since the last one, and reports whether there was more.
func (s *Sender) Send() (isFull bool, err error) {
	if isFull, err = s.build(); err != nil {
		return false, err
	}
	again, err := s.write()
	return isFull || again, err
}

// isEmpty reports whether the frame has no patches.
func (s *Sender) isEmpty() bool { return len(s.frame) == frameHeadBytes+bodyHeadBytes }

// build builds a frame. A shard's chunk is sent after all records of the older ones: as a reader
// does, build looks twice, and takes no chunk that is newer than those of the first look, so that
// all older ones are full in the second.
func (s *Sender) build() (isFull bool, err error) {
	s.frame = append(s.frame[:0], make([]byte, frameHeadBytes+bodyHeadBytes)...)
	le.PutUint64(s.frame[frameHeadBytes:], uint64(clock.Now()))
	le.PutUint64(s.frame[frameHeadBytes+8:], uint64(time.Now().UnixNano()))
	if !s.begun {
		if err := s.sendHead(); err != nil {
			return false, err
		}
	}
	newest := make([]uint64, s.head.Shards)
	if err := s.look(nil); err != nil {
		return false, err
	}
	for _, c := range s.found {
		newest[c.shard] = max(newest[c.shard], c.sequence)
	}
	if err := s.look(newest); err != nil {
		return false, err
	}
	slices.SortFunc(s.found, func(a, b chunk) int { return cmp.Compare(a.sequence, b.sequence) })
	for _, c := range s.found {
		if len(s.frame) >= frameRoom {
			isFull = true
			s.frame[frameHeadBytes+offBits] |= full
			break
		}
		if err := s.addChunk(c); err != nil {
			return false, err
		}
	}
	return isFull, s.addHead()
}

// write sends the frame that build has built. again means that the frame has not arrived, and that
// the next one begins where the receiver is.
func (s *Sender) write() (again bool, err error) {
	seal(s.frame)
	if _, err = s.out.Write(s.frame); err == nil {
		return false, nil
	}
	out, ok := s.out.(Resumer)
	if !ok {
		return false, err
	}
	at, err := out.Resume()
	if err != nil {
		return false, err
	}
	return true, s.moveTo(at)
}

// look finds the chunks with records that were not sent. If newest is not nil, it has the sequence
// number of the newest chunk of each shard that is taken.
func (s *Sender) look(newest []uint64) error {
	s.found = s.found[:0]
	for i := range s.chunks {
		c, ok, err := s.chunk(uint64(i))
		if err != nil {
			return err
		}
		sent := &s.chunks[i]
		isNew := c.sequence != sent.sequence || c.committed > sent.committed
		if ok && isNew && (newest == nil || c.sequence <= newest[c.shard]) {
			s.found = append(s.found, c)
		}
	}
	return nil
}

// chunk reads the head of a chunk, unless the chunk is empty or being reused.
func (s *Sender) chunk(index uint64) (c chunk, ok bool, err error) {
	var b [recording.ChunkHeadBytes]byte
	if err := s.read(b[:], s.head.ChunkOffset(index)); err != nil {
		return c, false, err
	}
	c = newChunk(index, b[:])
	again, err := s.sequence(index)
	ok = c.sequence != 0 && again == c.sequence && c.shard < s.head.Shards &&
		c.committed <= recording.ChunkBytes-recording.ChunkHeadBytes
	return c, ok, err
}

func (s *Sender) sequence(index uint64) (uint64, error) {
	var b [8]byte
	barrier.Load()
	err := s.read(b[:], s.head.ChunkOffset(index)+recording.OffSequence)
	return le.Uint64(b[:]), err
}

// addChunk adds the records of a chunk that were not sent, unless the chunk is reused meanwhile.
func (s *Sender) addChunk(c chunk) error {
	at, sent, before := s.head.ChunkOffset(c.index), &s.chunks[c.index], len(s.frame)
	from := uint64(0)
	if c.sequence == sent.sequence {
		from = sent.committed
	} else if err := s.add(at, recording.ChunkHeadBytes); err != nil {
		return err
	}
	records := int64(recording.ChunkHeadBytes + from)
	if err := s.add(at+records, int(c.committed-from)); err != nil {
		return err
	}
	again, err := s.sequence(c.index)
	if err != nil {
		return err
	}
	if again != c.sequence {
		s.frame = s.frame[:before]
		return nil
	}
	// The head may have been read after more records were committed.
	s.addWord(at+recording.OffCommitted, c.committed)
	if c.sequence != sent.sequence {
		s.addWord(recording.OffLatest, c.sequence)
	}
	*sent = c
	return nil
}

// add adds a patch with the bytes at an offset.
func (s *Sender) add(offset int64, size int) error {
	n := len(s.frame)
	s.frame = slices.Grow(s.frame, patchHeadBytes+size)[:n+patchHeadBytes+size]
	le.PutUint64(s.frame[n:], uint64(offset))
	le.PutUint64(s.frame[n+8:], uint64(size))
	return s.read(s.frame[n+patchHeadBytes:], offset)
}

// addWord adds a patch with an integer.
func (s *Sender) addWord(offset int64, word uint64) {
	s.frame = appendPatch(s.frame, offset, le.AppendUint64(nil, word))
}

// sendHead adds the recording's head as it was at the beginning, when the table was empty.
func (s *Sender) sendHead() error {
	n := len(s.frame)
	if err := s.add(0, recording.HeadBytes); err != nil {
		return err
	}
	head := s.frame[n+patchHeadBytes:]
	le.PutUint64(head[recording.OffTableUsed:], 0)
	le.PutUint64(head[recording.OffDropped:], 0)
	s.head.Dropped, s.begun = 0, true
	return nil
}

// addHead adds the entries of the table that were not sent, and the parts of the head that have
// changed. It comes after the chunks, so that the table has the probes of their records.
func (s *Sender) addHead() error {
	barrier.Load()
	now, err := s.readHead()
	if err != nil {
		return err
	}
	barrier.Load()
	if more := now.TableUsed - s.head.TableUsed; more > 0 && more <= now.TableBytes {
		if err := s.add(recording.HeadBytes+int64(s.head.TableUsed), int(more)); err != nil {
			return err
		}
		s.addWord(recording.OffTableUsed, now.TableUsed)
	}
	if now.Dropped != s.head.Dropped {
		s.addWord(recording.OffDropped, now.Dropped)
	}
	if now.Ended != s.head.Ended {
		if err := s.add(recording.OffEnded, 4); err != nil {
			return err
		}
	}
	s.head.TableUsed, s.head.Dropped, s.head.Ended = now.TableUsed, now.Dropped, now.Ended
	return nil
}

func (s *Sender) readHead() (*recording.Head, error) {
	b := make([]byte, recording.HeadBytes)
	if err := s.read(b, 0); err != nil {
		return nil, err
	}
	return recording.DecodeHead(b)
}

// read fills b. The recording has its whole size.
func (s *Sender) read(b []byte, offset int64) error {
	n, err := s.from.ReadAt(b, offset)
	if n == len(b) {
		return nil
	}
	return cmp.Or(err, io.ErrUnexpectedEOF)
}
