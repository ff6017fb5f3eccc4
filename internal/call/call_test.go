//go:build linux && (386 || amd64 || arm || arm64 || ppc64le || riscv64 || s390x) && !stapsdt_noload

package call

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/call/calltest"
	"github.com/go-stapsdt/stapsdt/internal/image"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// code maps machine code, and returns its address.
func code(t *testing.T, bytes []byte) unsafe.Pointer {
	t.Helper()
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(page)) })
	copy(page, bytes)
	require.NoError(t, unix.Mprotect(page, unix.PROT_READ|unix.PROT_EXEC))
	return unsafe.Pointer(&page[0])
}

// out is where arguments are recorded.
var out calltest.Record

func TestArguments(t *testing.T) {
	at := code(t, calltest.Code(&out))
	// A stack walk goes from frame to frame, upwards by not much.
	requireFrames := func() {
		t.Helper()
		if calltest.Frames {
			require.Greater(t, out.Caller, out.Frame)
			require.Less(t, out.Caller-out.Frame, uint64(4096))
		}
		out = calltest.Record{}
	}
	var words [MaxArgs]uint64
	for i := range words {
		words[i] = uint64(0x0101010101010101) * uint64(i+1)
	}
	require.True(t, WithStack(&at, &words))
	require.Equal(t, words, out.Args)
	requireFrames()
	require.True(t, WithRegisters(&at, (*[MaxRegs]uint64)(words[:])))
	require.Equal(t, words[:MaxRegs], out.Args[:MaxRegs])
	requireFrames()
}

// TestIdle: what is not patched is not called, be it executable or not.
func TestIdle(t *testing.T) {
	var words [MaxArgs]uint64
	bytes := []byte{Idle}
	for _, s := range image.Host().Nops {
		bytes = append(bytes, s.Code[0])
	}
	if runtime.GOARCH == "amd64" {
		bytes = append(bytes, 0xc3) // what stands where a site was
	}
	for _, b := range bytes {
		at := unsafe.Pointer(&[]byte{b}[0])
		require.False(t, WithRegisters(&at, (*[MaxRegs]uint64)(words[:])))
		require.False(t, WithStack(&at, &words))
	}
}

// TestPatched: the one test tells every nop from everything that a tracer
// writes over it.
func TestPatched(t *testing.T) {
	patched := func(b byte) bool { return b&Mask == Bits }
	require.False(t, patched(Idle))
	for _, s := range image.Host().Nops {
		require.False(t, patched(s.Code[0]), s.Name)
	}
	for _, b := range calltest.Breakpoints {
		require.True(t, patched(b), "%#x", b)
	}
}
