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
	if err := f.patches(m.patch); err != nil {
		return err
	}
	if m.memory == nil {
		return damaged("it does not begin with the head of a recording")
	}
	return nil
}

// patch copies a patch.
func (m *Mirror) patch(offset uint64, patch []byte) error {
	if m.memory == nil {
		head, err := headOf(offset, patch, m.max)
		if err != nil {
			return err
		}
		m.memory = make([]byte, head.Size())
	}
	if err := checkPatch(offset, patch, uint64(len(m.memory))); err != nil {
		return err
	}
	copy(m.memory[offset:], patch)
	return nil
}

// checkPatch returns an error for a patch that is not within a recording of size bytes.
func checkPatch(offset uint64, patch []byte, size uint64) error {
	if n := uint64(len(patch)); offset > size || n > size-offset {
		return damaged("a patch ends at byte %d of %d", offset+n, size)
	}
	return nil
}

// headOf decodes the first patch, which is the head of a recording of at most limit bytes.
func headOf(offset uint64, patch []byte, limit int64) (*recording.Head, error) {
	head, err := recording.DecodeHead(patch)
	if err != nil {
		return nil, err
	}
	if offset != 0 || head.Size() > limit {
		return nil, damaged("the recording has %d bytes, but at most %d were requested", head.Size(), limit)
	}
	return head, nil
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
