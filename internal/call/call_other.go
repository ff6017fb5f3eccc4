//go:build !(386 || amd64 || arm || arm64 || ppc64le || riscv64 || s390x) || stapsdt_noload

package call

import (
	"bytes"
	"runtime"
	"sync"
	"unsafe"
)

// Idle is the first byte of the stand-in for a site. This architecture has no sites.
const Idle = 0

// A byte that is 1 reads as patched. No site has one, only the stand-in for a site while the
// program observes itself.
const Mask, Bits = 1, 1

// WithRegisters does nothing, because there are no sites.
func WithRegisters(at *unsafe.Pointer, words *[MaxRegs]uint64) (called bool) { return false }

// WithStack does nothing.
func WithStack(at *unsafe.Pointer, words *[MaxArgs]uint64) (called bool) { return false }

// traces are buffers for the beginnings of stack traces.
var traces = sync.Pool{New: func() any { return new([64]byte) }}

// GoroutineIsG means that Goroutine returns the address of the runtime's g.
const GoroutineIsG = false

// Goroutine returns a number other than 0 that identifies the calling goroutine. It takes
// about a microsecond, because only a stack trace has the number.
func Goroutine() uintptr {
	buf := traces.Get().(*[64]byte)
	defer traces.Put(buf)
	trace := buf[:runtime.Stack(buf[:], false)] // "goroutine 18 [running]:..."
	var id uintptr
	for _, digit := range bytes.TrimPrefix(trace, []byte("goroutine ")) {
		if digit < '0' || digit > '9' {
			break
		}
		id = 10*id + uintptr(digit-'0')
	}
	return max(1, id)
}
