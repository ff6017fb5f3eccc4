//go:build linux && (amd64 || arm64)

package call

import (
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/image"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// code maps machine code, and returns its address.
func code(t *testing.T, bytes string) unsafe.Pointer {
	t.Helper()
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(page)) })
	copy(page, bytes)
	require.NoError(t, unix.Mprotect(page, unix.PROT_READ|unix.PROT_EXEC))
	return unsafe.Pointer(&page[0])
}

// recorded is what the recorder stores: the arguments, then the frame pointer, and
// what it points to, which is the caller's.
type recorded struct {
	args          [Max]uint64
	frame, caller uintptr
}

// recorder is code that stores the arguments it is called with at an address, as
// a C function of twelve integers finds them, and the frame pointers.
func recorder(out *recorded) string {
	addr := uint64(uintptr(unsafe.Pointer(out)))
	var b strings.Builder
	put := func(bytes ...byte) { b.Write(bytes) }
	if runtime.GOARCH == "amd64" {
		put(0x49, 0xbb) // movabs $addr, %r11
		for i := range 8 {
			put(byte(addr >> (8 * i)))
		}
		for i, modrm := range []byte{0x7b, 0x73, 0x53, 0x4b} { // rdi rsi rdx rcx
			put(0x49, 0x89, modrm, byte(8*i))
		}
		put(0x4d, 0x89, 0x43, 32, 0x4d, 0x89, 0x4b, 40) // r8 r9
		for i := range 6 {
			put(0x4c, 0x8b, 0x54, 0x24, byte(8+8*i)) // mov 8+8i(%rsp), %r10
			put(0x4d, 0x89, 0x53, byte(48+8*i))      // mov %r10, 48+8i(%r11)
		}
		put(0x49, 0x89, 0x6b, 96)  // mov %rbp, 96(%r11)
		put(0x4c, 0x8b, 0x55, 0)   // mov 0(%rbp), %r10
		put(0x4d, 0x89, 0x53, 104) // mov %r10, 104(%r11)
		put(0xc3)
		return b.String()
	}
	word := func(w uint32) { put(byte(w), byte(w>>8), byte(w>>16), byte(w>>24)) }
	for i := range uint32(4) {
		op := uint32(0xf2800000) // movk
		if i == 0 {
			op = 0xd2800000 // movz
		}
		word(op | i<<21 | uint32(addr>>(16*i)&0xffff)<<5 | 10) // x10
	}
	for i := range uint32(8) {
		word(0xf9000000 | i<<10 | 10<<5 | i) // str xi, [x10, 8i]
	}
	for i := range uint32(4) {
		word(0xf9400000 | i<<10 | 31<<5 | 11)     // ldr x11, [sp, 8i]
		word(0xf9000000 | (8+i)<<10 | 10<<5 | 11) // str x11, [x10, 64+8i]
	}
	word(0xf9000000 | 12<<10 | 10<<5 | 29) // str x29, [x10, 96]
	word(0xf9400000 | 29<<5 | 11)          // ldr x11, [x29]
	word(0xf9000000 | 13<<10 | 10<<5 | 11) // str x11, [x10, 104]
	word(0xd65f03c0)                       // ret
	return b.String()
}

// prologue is code of no effect whose first byte reads as patched.
func prologue() string {
	if runtime.GOARCH == "amd64" {
		return "\x48\x90" // rex.w nop
	}
	return "\x00\x00\x00\xaa" // orr x0, x0, x0
}

func TestArguments(t *testing.T) {
	out := new(recorded)
	at := code(t, prologue()+recorder(out))
	// A stack walk goes from frame to frame, upwards by not much.
	requireFrames := func() {
		t.Helper()
		require.Greater(t, out.caller, out.frame)
		require.Less(t, out.caller-out.frame, uintptr(4096))
		*out = recorded{}
	}
	var words [Max]uint64
	for i := range words {
		words[i] = uint64(0x0101010101010101) * uint64(i+1)
	}
	require.True(t, Many(&at, &words))
	require.Equal(t, words, out.args)
	requireFrames()
	require.True(t, Few(&at, (*[MaxRegs]uint64)(words[:])))
	require.Equal(t, words[:MaxRegs], out.args[:MaxRegs])
	requireFrames()
}

// TestIdle: what is not patched is not called, be it executable or not.
func TestIdle(t *testing.T) {
	var words [Max]uint64
	bytes := []byte{Idle, 0x90, 0x0f, 0x66, 0xc3}
	if runtime.GOARCH == "arm64" {
		bytes = []byte{Idle}
	}
	for _, b := range bytes {
		at := unsafe.Pointer(&[]byte{b}[0])
		require.False(t, Few(&at, (*[MaxRegs]uint64)(words[:])))
		require.False(t, Many(&at, &words))
	}
}

// TestPatched: the one test tells every nop from everything that a tracer
// writes over it.
func TestPatched(t *testing.T) {
	patched := func(b byte) bool { return b&Mask == Bits }
	require.False(t, patched(Idle))
	for _, s := range image.Host().Sites {
		require.False(t, patched(s.Nop[0]), s.Name)
	}
	traced := []byte{0xcc, 0xe8, 0x48}
	if runtime.GOARCH == "arm64" {
		traced = []byte{0xa0, 0x00}
	}
	for _, b := range traced {
		require.True(t, patched(b), "%#x", b)
	}
}
