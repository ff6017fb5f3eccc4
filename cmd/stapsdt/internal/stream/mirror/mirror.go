package mirror

import (
	"io"

	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Mirror is a recording in memory to which frames are applied. It is an io.ReaderAt. It is not safe
// for concurrent use: its reader must not read while a frame is applied.
type Mirror struct {
	max    int64
	memory []byte
}

// New returns a Mirror of a recording with at most this number of bytes.
func New(max int64) *Mirror { return &Mirror{max: max} }

// Apply applies the next frame. The Mirror must not be used after an error.
func (m *Mirror) Apply(f *Frame) error {
	b := f.body[bodyHeadBytes:]
	for len(b) > 0 {
		if len(b) < patchHeadBytes {
			return damaged("a patch has %d bytes", len(b))
		}
		offset, size := le.Uint64(b), le.Uint64(b[8:])
		if b = b[patchHeadBytes:]; size > uint64(len(b)) {
			return damaged("a patch has %d of %d bytes", len(b), size)
		}
		patch := b[:size]
		b = b[size:]
		if m.memory == nil {
			if err := m.begin(offset, patch); err != nil {
				return err
			}
		}
		if room := uint64(len(m.memory)); offset > room || size > room-offset {
			return damaged("a patch ends at byte %d of %d", offset+size, room)
		}
		copy(m.memory[offset:], patch)
	}
	if m.memory == nil {
		return damaged("it does not begin with the head of a recording")
	}
	return nil
}

// begin allocates the memory, by the first patch.
func (m *Mirror) begin(offset uint64, patch []byte) error {
	head, err := recording.DecodeHead(patch)
	if err != nil {
		return err
	}
	if offset != 0 || head.Size() > m.max {
		return damaged("the recording has %d bytes, but was asked to have at most %d", head.Size(), m.max)
	}
	m.memory = make([]byte, head.Size())
	return nil
}

// ReadAt implements io.ReaderAt.
func (m *Mirror) ReadAt(b []byte, offset int64) (int, error) {
	if offset < 0 || offset > int64(len(m.memory)) {
		return 0, io.EOF
	}
	n := copy(b, m.memory[offset:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}
