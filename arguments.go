package stapsdt

import (
	"sync"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/call"
)

// arguments holds what a probe passes to its site: the words, and the copies of strings
// whose addresses some of the words are.
type arguments struct {
	words [MaxArgs]uint64
	// copies is nil while the arguments need none.
	copies *texts
}

// begin reserves memory for the strings of a probe.
func (a *arguments) begin(p *Probe) {
	if p.strings > 0 {
		a.copies = getTexts(p.strings)
	}
}

// registers returns the words of a probe that has at most MaxRegs arguments.
func (a *arguments) registers() *[call.MaxRegs]uint64 {
	return (*[call.MaxRegs]uint64)(a.words[:])
}

// end releases the copies after the tracer has seen them.
func (a *arguments) end() {
	if a.copies != nil {
		a.copies.put()
	}
}

// texts holds NUL-terminated copies of the strings that a probe is fired with. They are
// on the heap, where a tracer can read them because the garbage collector does not move
// them.
type texts struct {
	buf  []byte
	n    int
	ends [MaxArgs]uint16 // where the n copies end in buf, before their NULs
}

// add copies a string, cut at MaxString bytes including its NUL, and returns the address
// of the copy.
func (t *texts) add(s string) uint64 {
	start := len(t.buf)
	t.buf = append(t.buf, s[:min(len(s), MaxString-1)]...)
	t.ends[t.n] = uint16(len(t.buf))
	t.n++
	t.buf = append(t.buf, 0)
	// SAFETY: the address is passed to a tracer as an integer, and is never converted
	// back to a pointer. The buffer is on the heap, where nothing moves. It does not
	// grow, because getTexts reserved enough. The call of put, after that of the
	// site, keeps it alive.
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(t.buf[start:]))))
}

// at returns the i-th copy without its NUL. It is valid as long as the copy is.
func (t *texts) at(i int) string {
	start := 0
	if i > 0 {
		start = int(t.ends[i-1]) + 1
	}
	b := t.buf[start:t.ends[i]]
	// SAFETY: nothing writes to the copy before put, which Observe names as the end of
	// the text's life. A clone's copy is never written to.
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// textPool holds the texts that no fire uses.
var textPool = sync.Pool{New: func() any { return new(texts) }}

// getTexts returns a texts with memory for n strings.
func getTexts(n int) *texts {
	t := textPool.Get().(*texts)
	if cap(t.buf) < n*MaxString {
		t.buf = make([]byte, 0, n*MaxString)
	}
	t.buf, t.n = t.buf[:0], 0
	return t
}

// put returns the texts to the pool. Nothing reads them after the site has returned.
func (t *texts) put() { textPool.Put(t) }
