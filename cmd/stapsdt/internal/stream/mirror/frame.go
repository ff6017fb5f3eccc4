// Package mirror sends a recording that is being written to another machine, and mirrors it in the
// memory there.
//
// A Sender finds what was written since it last looked, and sends it as a frame: the changed bytes
// with their offsets. A Mirror applies frames. After each frame it is a valid recording, which
// package recording reads like any other. The recording is a ring: if the writer overtakes the
// Sender, chunks are missing in the mirror, and its reader counts their events as it does for any
// recording that was overtaken.
package mirror

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"
)

// A frame is the size of its body and a checksum of the body, in four bytes each, and the body:
//
//	 0  8 bytes  the time of the look by CLOCK_MONOTONIC, in nanoseconds
//	 8  8 bytes  the same by CLOCK_REALTIME
//	16  8 bytes  bits: the recording has ended, and more was written than the frame has room for
//	    patches  each the offset in the recording, the size, in eight bytes each, and the bytes
//
// All integers are little-endian. The first frame begins with the recording's head.
const (
	frameHeadBytes = 8
	bodyHeadBytes  = 24
	patchHeadBytes = 16
	// maxBody is the size of the largest frame that a Sender sends and Read accepts.
	maxBody = 2 << 20
)

var le = binary.LittleEndian

// castagnoli is the polynomial for which processors have instructions.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrDamaged is the error for bytes that no Sender has sent.
var ErrDamaged = errors.New("the stream of events was damaged on its way")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// Frame is a part of a recording, as Read has read it.
type Frame struct {
	body []byte
}

// Looked returns the time by the clocks of the sender's machine when the Sender looked at the
// recording. All records that were written until then are in this frame or in an earlier one,
// unless the frame is Full.
func (f *Frame) Looked() (monotonic, realtime time.Duration) {
	return time.Duration(le.Uint64(f.body)), time.Duration(le.Uint64(f.body[8:]))
}

// Last reports whether the recording has ended, and no frame follows.
func (f *Frame) Last() bool { return f.body[offBits]&last != 0 }

// Full reports whether more was written than the frame has room for.
func (f *Frame) Full() bool { return f.body[offBits]&full != 0 }

// offBits is the offset of the bits of a frame.
const offBits = 16

const (
	last = 1 << iota
	full
)

// patches calls visit with the offset and the bytes of each patch.
func (f *Frame) patches(visit func(offset uint64, patch []byte) error) error {
	b := f.body[bodyHeadBytes:]
	for len(b) > 0 {
		if len(b) < patchHeadBytes {
			return damaged("a patch has %d bytes", len(b))
		}
		offset, size := le.Uint64(b), le.Uint64(b[8:])
		if b = b[patchHeadBytes:]; size > uint64(len(b)) {
			return damaged("a patch has %d of %d bytes", len(b), size)
		}
		if err := visit(offset, b[:size]); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

// appendPatch appends a patch to a frame.
func appendPatch(frame []byte, offset int64, patch []byte) []byte {
	frame = le.AppendUint64(frame, uint64(offset))
	frame = le.AppendUint64(frame, uint64(len(patch)))
	return append(frame, patch...)
}

// seal completes the beginning of a frame.
func seal(frame []byte) {
	body := frame[frameHeadBytes:]
	le.PutUint32(frame, uint32(len(body)))
	le.PutUint32(frame[4:], crc32.Checksum(body, castagnoli))
}

// Read reads a frame. It returns io.EOF at the end of the input, also within a frame.
func Read(from io.Reader) (*Frame, error) {
	var head [frameHeadBytes]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, endOf(err)
	}
	size := le.Uint32(head[:])
	if size < bodyHeadBytes || size > maxBody {
		return nil, damaged("a frame has %d bytes", size)
	}
	f := &Frame{body: make([]byte, size)}
	if _, err := io.ReadFull(from, f.body); err != nil {
		return nil, endOf(err)
	}
	if crc32.Checksum(f.body, castagnoli) != le.Uint32(head[4:]) {
		return nil, damaged("the checksum of a frame differs")
	}
	return f, nil
}

func endOf(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}
