package words

import (
	"sync"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/call"
)

// Texts holds NUL-terminated copies of the strings that a probe is fired with. They are
// on the heap, where a tracer can read them because the garbage collector does not move
// them.
type Texts struct {
	buf  []byte
	n    int
	ends [call.MaxArgs]uint16 // the ends of the n copies in buf, before their NULs
}

// Add copies a string and returns the address of the copy.
func (t *Texts) Add(s string) uint64 {
	start := len(t.buf)
	t.buf = append(t.buf, s...)
	t.ends[t.n] = uint16(len(t.buf))
	t.n++
	t.buf = append(t.buf, 0)
	// SAFETY: the address is passed to a tracer as an integer, and is never converted
	// back to a pointer. The buffer is on the heap, where nothing moves. It does not
	// grow, because Reserve has reserved enough. The call of Release, after that of the
	// site, keeps it alive.
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(t.buf[start:]))))
}

// At returns the i-th copy without its NUL. It is valid as long as the copy is.
func (t *Texts) At(i int) string {
	start := 0
	if i > 0 {
		start = int(t.ends[i-1]) + 1
	}
	b := t.buf[start:t.ends[i]]
	// SAFETY: nothing writes to the copy before Release, which Observe names as the end of
	// the text's life. A clone's copy is never written to.
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// All returns the copies, each with a NUL after it, and the end of each, before its NUL.
// A nil Texts has none.
func (t *Texts) All() (copies []byte, ends []uint16) {
	if t == nil {
		return nil, nil
	}
	return t.buf, t.ends[:t.n]
}

// Clone returns a copy that stays valid. The clone of a nil Texts is nil.
func (t *Texts) Clone() *Texts {
	if t == nil {
		return nil
	}
	c := *t
	c.buf = append([]byte(nil), t.buf...)
	return &c
}

// pool holds the Texts that no fire uses.
var pool = sync.Pool{New: func() any { return new(Texts) }}

// getTexts returns an empty Texts with memory for size bytes.
func getTexts(size int) *Texts {
	t := pool.Get().(*Texts)
	if cap(t.buf) < size {
		t.buf = make([]byte, 0, size)
	}
	t.buf, t.n = t.buf[:0], 0
	return t
}

// put returns the Texts to the pool. Nothing reads them after the site has returned.
func (t *Texts) put() { pool.Put(t) }
