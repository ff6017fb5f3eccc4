//go:build linux && (386 || amd64 || arm || arm64 || ppc64le || riscv64 || s390x) && !stapsdt_noload

package stapsdt

import (
	"math"
	"os"
	"runtime/debug"
	"testing"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/call/calltest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

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
	start := unsafe.Add(p.site, -int(uintptr(p.site)%page))
	pages := unsafe.Slice((*byte)(start), page)
	require.NoError(t, unix.Mprotect(pages, unix.PROT_READ|unix.PROT_WRITE))
	*(*byte)(p.site) = b
	require.NoError(t, unix.Mprotect(pages, unix.PROT_READ|unix.PROT_EXEC))
}

func TestPatchedSiteIsEnabled(t *testing.T) {
	for _, opts := range [][]Option{nil, {WithMemfd()}} {
		p := newProvider(t, "patched", opts...)
		probe := NewProbe0(p, "probe")
		other := NewProbe0(p, "other")
		load(t, p)
		nop := *(*byte)(probe.site)
		require.False(t, probe.Enabled())
		probe.Fire()
		for _, b := range calltest.Breakpoints {
			patch(t, &probe.Probe, b)
			require.True(t, probe.Enabled(), "%#x", b)
			require.True(t, probe.Traced())
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
var recorded calltest.Record

// recordAt puts a function that stores its arguments in the probe's place.
func recordAt(t *testing.T, p *Probe) {
	t.Helper()
	size := os.Getpagesize()
	page, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	copy(page, calltest.Code(&recorded))
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

	floats := NewProbe3[float32, seconds, float64](p, "floats")
	recordAt(t, &floats.Probe)
	floats.Fire(-1.5, 0.1, math.Inf(1))
	require.EqualValues(t, uint32(0xbfc00000), uint32(recorded.Args[0]))
	require.EqualValues(t, uint64(0x3fb999999999999a), recorded.Args[1])
	require.EqualValues(t, uint64(0x7ff<<52), recorded.Args[2])

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

// TestFieldsArrive fires structs with as many fields as registers, and with more.
func TestFieldsArrive(t *testing.T) {
	p := newProvider(t, "fields")
	type few struct {
		A int8
		B float32
		_ [5]byte
		C uint64
		D *object
	}
	small := NewProbeOf[few](p, "small")
	recordAt(t, &small.Probe)
	global := &recordedObject // a goroutine's stack may move before it is compared
	check := func() {
		t.Helper()
		require.EqualValues(t, -1, int8(recorded.Args[0]))
		require.EqualValues(t, 0x3f000000, uint32(recorded.Args[1]))
		require.EqualValues(t, uint64(1<<63+4), recorded.Args[2])
		require.EqualValues(t, uintptr(unsafe.Pointer(global)), recorded.Args[3])
		recorded = calltest.Record{}
	}
	small.Fire(few{A: -1, B: 0.5, C: 1<<63 + 4, D: global})
	check()
	small.FireFunc(func() few { return few{A: -1, B: 0.5, C: 1<<63 + 4, D: global} })
	check()
	plain := NewProbeOf[details](p, "plain")
	recordAt(t, &plain.Probe)
	plain.Fire(details{Status: -3, Elapsed: 1 << 40})
	require.EqualValues(t, -3, int32(recorded.Args[0]))
	require.EqualValues(t, uint64(1<<40), recorded.Args[1])

	type many struct {
		A, B, C uint64
		Inner   *object
		details
		D, E, F, G uint64
		Raw        unsafe.Pointer
		Last       float64
	}
	large := NewProbeOf[many](p, "large")
	require.Len(t, large.args, MaxArgs)
	recordAt(t, &large.Probe)
	large.Fire(many{A: 1, B: 2, C: 3, Inner: global, details: details{-5, 6}, D: 7, E: 8, F: 9, G: 10, Raw: unsafe.Pointer(global), Last: 1.5})
	address := uint64(uintptr(unsafe.Pointer(global)))
	recorded.Args[4] = uint64(int64(int32(recorded.Args[4])))
	require.Equal(t, [MaxArgs]uint64{1, 2, 3, address, 1<<64 - 5, 6, 7, 8, 9, 10, address, math.Float64bits(1.5)}, recorded.Args)

	type numbers struct{ A, B, C, D, E, F, G, H, I, J, K, L uint64 } // which are passed in another way than pointers
	plainMany := NewProbeOf[numbers](p, "numbers")
	recordAt(t, &plainMany.Probe)
	plainMany.Fire(numbers{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	require.Equal(t, [MaxArgs]uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, recorded.Args)
}

var recordedObject object

// TestFieldsDoNotAllocate: neither the arguments nor what they point to escape.
func TestFieldsDoNotAllocate(t *testing.T) {
	testenv.NotRaced(t, "sync.Pool drops what it was given, at random")
	testenv.NotSanitized(t, "the address sanitizer has variables escape")
	testenv.NeedsOptimization(t, "Fire is not inlined, and its arguments are allocated")
	p := newProvider(t, "allocs")
	probe := NewProbeOf[request](p, "request")
	small := NewProbeOf[details](p, "small")
	body, number := []byte("body"), 0
	fires := map[string]func(){
		"large": func() {
			number++
			probe.Fire(request{ID: userID(number), Path: string(body), details: details{Status: 200}, Body: body, Object: &object{A: number}, Raw: unsafe.Pointer(&object{B: number})})
		},
		"small": func() { small.Fire(details{int32(number), 1}) },
		"func": func() {
			probe.FireFunc(func() request { return request{ID: userID(number), Path: "path", Body: body, Object: &recordedObject} })
		},
	}
	for name, fire := range fires {
		require.Zero(t, testing.AllocsPerRun(100, fire), "%s, idle", name)
	}
	recordAt(t, &probe.Probe)
	recordAt(t, &small.Probe)
	for name, fire := range fires {
		require.Zero(t, testing.AllocsPerRun(100, fire), "%s, traced", name)
	}
}

// TestTextArrives reads strings as a tracer does, from their addresses.
func TestTextArrives(t *testing.T) {
	p := newProvider(t, "text")
	probe := NewProbe2[string, []byte](p, "text")
	recordAt(t, &probe.Probe)

	// Without a collection, the texts are still there after the fire.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	probe.Fire("hello", []byte("world"))
	require.Equal(t, "hello", textAt(recorded.Args[0]))
	require.Equal(t, "world", textAt(recorded.Args[1]))
	for _, addr := range recorded.Args[:2] {
		require.EqualValues(t, uintptr(addr), addr, "nothing stands above the address")
	}
}

// textAt returns the bytes at an address up to the first NUL.
func textAt(addr uint64) string {
	word := uintptr(addr)
	// SAFETY: the address is that of a copy in memory that is not collected meanwhile.
	return unix.BytePtrToString(*(**byte)(unsafe.Pointer(&word)))
}
