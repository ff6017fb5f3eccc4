//go:build linux && (386 || amd64 || arm || arm64 || ppc64le || riscv64 || s390x)

package stapsdt

import (
	"os"
	"sync"
	"testing"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/call/recorder"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// These tests stand in for a tracer where none can be had, under an emulator for
// one: they write what it would write.

// patch writes a byte over the first of a loaded probe's site, in this process's
// copy of the page.
func patch(t *testing.T, p *Probe, b byte) {
	t.Helper()
	page := uintptr(os.Getpagesize())
	// SAFETY: the site is mapped, privately, for as long as the provider is
	// loaded, and with it the page that it is in.
	start := unsafe.Add(p.at, -int(uintptr(p.at)%page))
	pages := unsafe.Slice((*byte)(start), page)
	require.NoError(t, unix.Mprotect(pages, unix.PROT_READ|unix.PROT_WRITE))
	*(*byte)(p.at) = b
	require.NoError(t, unix.Mprotect(pages, unix.PROT_READ|unix.PROT_EXEC))
}

func TestPatchedSiteIsEnabled(t *testing.T) {
	for _, opts := range [][]Option{nil, {WithMemfd()}} {
		p := newProvider(t, "patched", opts...)
		probe := NewProbe0(p, "probe")
		other := NewProbe0(p, "other")
		load(t, p)
		nop := *(*byte)(probe.at)
		require.False(t, probe.Enabled())
		probe.Fire()
		for _, b := range recorder.Breakpoints {
			patch(t, &probe.Probe, b)
			require.True(t, probe.Enabled(), "%#x", b)
			require.False(t, other.Enabled())
			patch(t, &probe.Probe, nop)
			require.False(t, probe.Enabled())
			probe.Fire()
		}
		require.NoError(t, p.Unload())
		require.False(t, probe.Enabled())
		probe.Fire()
		require.NoError(t, p.Load())
		require.False(t, probe.Enabled(), "the patch went with the old mapping")
		probe.Fire()
	}
}

// recorded is what the code that recordAt installs has stored.
var recorded recorder.Record

// recordAt puts a function that stores its arguments in the probe's place.
func recordAt(t *testing.T, p *Probe) {
	t.Helper()
	size := os.Getpagesize()
	page, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	copy(page, recorder.Code(&recorded))
	require.NoError(t, unix.Mprotect(page, unix.PROT_READ|unix.PROT_EXEC))
	t.Cleanup(func() {
		p.move(&noSite[0])
		require.NoError(t, unix.Munmap(page))
	})
	p.move(&page[0])
	require.True(t, p.Enabled())
}

func TestValuesArrive(t *testing.T) {
	p := newProvider(t, "values")
	typed := NewProbe6[int8, uint16, int32, uint64, bool, unsafe.Pointer](p, "typed")
	recordAt(t, &typed.Probe)
	x := unsafe.Pointer(&recorded) // a goroutine's stack may move before it is compared
	typed.Fire(-1, 0xfffe, -3, 1<<63+4, true, x)
	require.EqualValues(t, 0xff, uint8(recorded.Args[0]))
	require.EqualValues(t, 0xfffe, uint16(recorded.Args[1]))
	require.EqualValues(t, -3, int32(recorded.Args[2]))
	require.EqualValues(t, uint64(1<<63+4), recorded.Args[3])
	require.EqualValues(t, 1, uint8(recorded.Args[4]))
	require.EqualValues(t, uintptr(x), recorded.Args[5])

	types := make([]ArgType, MaxArgs)
	values := make([]any, MaxArgs)
	for i := range types {
		types[i], values[i] = Uint64, uint64(i+1)*0x0102030405060708
	}
	many, err := p.AddProbe("many", types...)
	require.NoError(t, err)
	recordAt(t, many)
	require.NoError(t, many.Fire(values...))
	for i := range types {
		require.Equal(t, values[i], recorded.Args[i], "argument %d", i)
	}
}

// TestTextArrives reads strings as a tracer does, from their addresses.
func TestTextArrives(t *testing.T) {
	p := newProvider(t, "text")
	probe := NewProbe2[string, []byte](p, "text")
	recordAt(t, &probe.Probe)

	// What the pool makes is kept, so that it can be read after the fire.
	var kept *texts
	make := textPool.New
	textPool = sync.Pool{New: func() any {
		kept = make().(*texts)
		return kept
	}}
	defer func() { textPool = sync.Pool{New: make} }()
	probe.Fire("hello", []byte("world"))
	require.Equal(t, "hello", read(t, kept, recorded.Args[0]))
	require.Equal(t, "world", read(t, kept, recorded.Args[1]))
	for _, addr := range recorded.Args[:2] {
		require.EqualValues(t, uintptr(addr), addr, "nothing stands above the address")
	}
}
