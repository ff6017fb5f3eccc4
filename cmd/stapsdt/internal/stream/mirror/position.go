package mirror

import (
	"io"

	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Resumer is an output of a Sender whose receiver can come again after a Write has failed.
type Resumer interface {
	io.Writer
	// Resume waits for the receiver, and returns the frame of its Position. The error means that it
	// does not come again.
	Resume() (*Frame, error)
}

// Position is how far a receiver of frames is: it has the head of the recording, and the heads of
// its chunks, which have their sequence numbers and the sizes of their records.
type Position struct {
	limit int64
	head  *recording.Head // of the first frame, or nil before it
	own   []byte          // the head
	heads []byte          // of the chunks, one after another
}

// NewPosition returns the position before the first frame of a recording with at most limit bytes.
func NewPosition(limit int64) *Position { return &Position{limit: limit} }

// Take moves the position after a frame. The Position must not be used after an error.
func (p *Position) Take(f *Frame) error { return f.patches(p.patch) }

func (p *Position) patch(offset uint64, patch []byte) error {
	if p.head == nil {
		head, err := headOf(offset, patch, p.limit)
		if err != nil {
			return err
		}
		p.head, p.own = head, make([]byte, recording.HeadBytes)
		p.heads = make([]byte, head.Chunks*recording.ChunkHeadBytes)
	}
	if err := checkPatch(offset, patch, uint64(p.head.Size())); err != nil {
		return err
	}
	overlay(p.own, 0, int64(offset), patch)
	const whole, part = recording.ChunkBytes, recording.ChunkHeadBytes
	chunks := p.head.ChunkOffset(0)
	end := int64(offset) + int64(len(patch))
	for i := max(0, int64(offset)-chunks) / whole; chunks+i*whole < end; i++ {
		overlay(p.heads[i*part:][:part], chunks+i*whole, int64(offset), patch)
	}
	return nil
}

// overlay copies the part of a patch that is within b, which is at an offset too.
func overlay(b []byte, at, offset int64, patch []byte) {
	if skip := at - offset; skip > 0 {
		patch = patch[min(skip, int64(len(patch))):]
		offset = at
	}
	if skip := offset - at; skip < int64(len(b)) {
		copy(b[skip:], patch)
	}
}

// Frame returns the bytes of a frame that moves a new Position to this one.
func (p *Position) Frame() []byte {
	frame := make([]byte, frameHeadBytes+bodyHeadBytes)
	if p.head != nil {
		frame = appendPatch(frame, 0, p.own)
	}
	for i := 0; i < len(p.heads); i += recording.ChunkHeadBytes {
		at := p.head.ChunkOffset(uint64(i / recording.ChunkHeadBytes))
		frame = appendPatch(frame, at, p.heads[i:][:recording.ChunkHeadBytes])
	}
	seal(frame)
	return frame
}

// moveTo lets the next frame begin at the position that a frame describes.
func (s *Sender) moveTo(f *Frame) error {
	p := NewPosition(s.head.Size())
	if err := p.Take(f); err != nil {
		return err
	}
	clear(s.chunks)
	s.head.TableUsed, s.head.Ended, s.begun = 0, false, false
	if p.head == nil {
		return nil
	}
	now, err := recording.DecodeHead(p.own)
	if err != nil {
		return err
	}
	if now.Chunks != s.head.Chunks || now.TableBytes != s.head.TableBytes {
		return damaged("the receiver has another recording")
	}
	s.head.TableUsed, s.head.Dropped, s.head.Ended = now.TableUsed, now.Dropped, now.Ended
	s.begun = true
	for i := range s.chunks {
		b := p.heads[i*recording.ChunkHeadBytes:][:recording.ChunkHeadBytes]
		s.chunks[i] = newChunk(uint64(i), b)
	}
	return nil
}
