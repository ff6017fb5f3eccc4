package stapsdt

import (
	"sync"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/call"
)

// event is what a probe passes to its site: the words, and the copies of
// strings that they may be the addresses of.
type event struct {
	words  [MaxArgs]uint64
	copies *texts
}

// begin makes room for the strings of a probe.
func (e *event) begin(p *Probe) {
	if p.strings > 0 {
		e.copies = getTexts(p.strings)
	}
}

// registers returns the words of a probe that has no more than these.
func (e *event) registers() *[call.MaxRegs]uint64 { return (*[call.MaxRegs]uint64)(e.words[:]) }

// end gives the copies back, when the tracer has seen them.
func (e *event) end() {
	if e.copies != nil {
		e.copies.put()
	}
}

// texts holds copies of the strings that a probe is fired with, NUL-terminated,
// where a tracer can read them: memory of the heap, which the garbage collector
// does not move.
type texts struct{ buf []byte }

var textPool = sync.Pool{New: func() any { return &texts{make([]byte, 0, MaxString)} }}

// getTexts returns room for n strings.
func getTexts(n int) *texts {
	t := textPool.Get().(*texts)
	if cap(t.buf) < n*MaxString {
		t.buf = make([]byte, 0, n*MaxString)
	}
	t.buf = t.buf[:0]
	return t
}

// add copies a string, cut at MaxString, and returns the copy's address.
func (t *texts) add(s string) uint64 {
	start := len(t.buf)
	t.buf = append(t.buf, s[:min(len(s), MaxString-1)]...)
	t.buf = append(t.buf, 0)
	// SAFETY: the address is passed to a tracer as an integer, and is never
	// made a pointer again. The buffer is on the heap, which does not move,
	// does not grow, as getTexts was asked for enough, and is kept alive by
	// put, after the site was called.
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(t.buf[start:]))))
}

// put gives the room back. Nothing reads it after the site has returned.
func (t *texts) put() { textPool.Put(t) }
