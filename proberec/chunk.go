package proberec

import (
	"encoding/binary"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/words"
)

// chunkBytes is the size of a chunk. The largest event takes about 50,000 bytes.
const chunkBytes = 64 << 10

// headBytes is the size of the beginning of a record: its size, the probe's id, the time. The arguments
// follow: a word of 8 bytes for each argument, the end of each string in
// 2 bytes, and the strings with their NULs.
const headBytes = 16

// chunk holds records. It is being filled by a shard, whose lock guards it then, or retired,
// and guarded by that of the recorder.
type chunk struct {
	buf        []byte
	n          int    // the bytes in use
	generation uint64 // how often it was emptied
}

// append appends a record of an event, and reports whether there was room for it.
func (c *chunk) append(e *stapsdt.Event, id uint32) bool {
	// SAFETY: e is an Event, and alive.
	arguments := words.Of(unsafe.Pointer(e))
	list := arguments.Words[:e.NumArgs()]
	texts, ends := arguments.Texts.All()
	size := headBytes + 8*len(list) + 2*len(ends) + len(texts)
	b := c.buf[c.n:]
	if size > len(b) {
		return false
	}
	b = b[:size]
	binary.LittleEndian.PutUint32(b, uint32(size))
	binary.LittleEndian.PutUint32(b[4:], id)
	binary.LittleEndian.PutUint64(b[8:], uint64(e.Time()))
	at := headBytes
	for _, w := range list {
		binary.LittleEndian.PutUint64(b[at:], w)
		at += 8
	}
	for _, end := range ends {
		binary.LittleEndian.PutUint16(b[at:], end)
		at += 2
	}
	copy(b[at:], texts)
	c.n += size
	return true
}
