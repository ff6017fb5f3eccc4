//go:build linux && (386 || amd64 || arm || arm64 || ppc64le || riscv64 || s390x) && !stapsdt_noload

package region

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/call"
	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/site"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestParkAndReuse: the same image finds its range again, another one takes a
// new range, and all of them can be called at any time.
func TestParkAndReuse(t *testing.T) {
	defer func(park func(*span) error) { parkShared = park }(parkShared)
	for name, fail := range map[string]bool{"shared": false, "anonymous": true} {
		t.Run(name, func(t *testing.T) {
			parkShared = realParkShared
			if fail {
				parkShared = func(*span) error { return errors.New("no memfd") }
			}
			var space Space
			defer space.Free()
			opts := only(t, t.TempDir())
			small, large := testImage(t, 3), testImage(t, 5000)
			home, sites, err := Load(&space, small, opts)
			require.NoError(t, err)
			home.Close()
			first := sites.At(0)
			for range 3 {
				require.NoError(t, space.Park())
				require.NoError(t, space.Park(), "again does nothing")
				for i := range 3 {
					requireParked(t, sites.At(i))
				}
				home, sites, err = Load(&space, small, opts)
				require.NoError(t, err)
				home.Close()
				require.Equal(t, unsafe.Pointer(first), unsafe.Pointer(sites.At(0)), "the range is used again")
				require.Equal(t, small.Bytes[small.Text], *sites.At(0))
				require.Len(t, space.ranges, 1)
			}
			require.NoError(t, space.Park())
			home, sites, err = Load(&space, large, opts)
			require.NoError(t, err)
			home.Close()
			require.NotEqual(t, unsafe.Pointer(first), unsafe.Pointer(sites.At(0)))
			require.Equal(t, large.Bytes[large.Text], *sites.At(4999))
			requireParked(t, first)
			require.NoError(t, space.Park())
			requireParked(t, sites.At(4999))
		})
	}
}

// TestStolenDescriptors: a program that closes what is not its own, and opens files
// under the numbers, has none of those mapped or closed.
func TestStolenDescriptors(t *testing.T) {
	name := t.TempDir() + "/theirs"
	require.NoError(t, os.WriteFile(name, make([]byte, 1<<16), 0o600))
	im := testImage(t, 1)
	var space Space
	defer space.Free()
	home, _, err := Load(&space, im, Options{Memfd: true})
	require.NoError(t, err)
	require.NoError(t, space.Park()) // which makes the parked slots

	stolen := []int{home.fd, parkMemory.memory.fd}
	for _, number := range stolen {
		fd, err := unix.Open(name, unix.O_RDONLY, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Dup3(fd, number, 0))
		unix.Close(fd)
		defer unix.Close(number)
	}
	home.Close()
	home, sites, err := Load(&space, im, Options{Memfd: true})
	require.NoError(t, err)
	require.NoError(t, space.Park())
	requireParked(t, sites.At(0))
	home.Close()
	for _, number := range stolen {
		_, err := unix.FcntlInt(uintptr(number), unix.F_GETFD, 0)
		require.NoError(t, err, "it is not ours to close")
	}
}

// TestGrowingImage: a provider that is loaded again with one probe more, and again,
// comes back to its ranges, of which it has few; and what was a site stays parked.
func TestGrowingImage(t *testing.T) {
	testenv.NotRaced(t, "it makes images of a million probes together")
	var space Space
	defer space.Free()
	opts := Options{Memfd: true}
	published := make(map[*byte]bool)
	idle, live := parkedSlot(site.Chosen()), image.Host().Slot(site.Chosen())
	most := 1500
	if testing.Short() {
		most = 400
	}
	for n := 1; n <= most; n++ {
		home, sites, err := Load(&space, testImage(t, n), opts)
		require.NoError(t, err)
		for at := range published { // a goroutine may still call it
			slot := unsafe.Slice(at, image.SlotSize)
			if !bytes.Equal(slot, idle[:]) && !bytes.Equal(slot, live[:]) {
				t.Fatalf("with %d probes, %x is in a site's place", n, slot)
			}
		}
		published[sites.At(0)], published[sites.At(n-1)] = true, true
		require.NoError(t, space.Park())
		home.Close()
	}
	// Sites start at each 256th byte of a page, and ranges are of 1, 2, 4 and 8 pages.
	require.LessOrEqual(t, len(space.ranges), os.Getpagesize()/256*4)
	for at := range published {
		requireParked(t, at)
	}
}

func requireParked(t testing.TB, at *byte) {
	t.Helper()
	require.NotEqual(t, byte(call.Bits), *at&call.Mask, "a parked slot reads as idle")
	slot := parkedSlot(site.Chosen())
	require.Equal(t, slot[:], unsafe.Slice(at, image.SlotSize))
}

// TestParkedMemoryIsKept: one memory serves every range that is no larger.
func TestParkedMemoryIsKept(t *testing.T) {
	var space Space
	defer space.Free()
	opts := Options{Memfd: true}
	cycle := func(probes int) *memfd {
		home, _, err := Load(&space, testImage(t, probes), opts)
		require.NoError(t, err)
		require.NoError(t, space.Park())
		home.Close()
		return parkMemory.memory
	}
	large := cycle(5000)
	require.Same(t, large, cycle(5000))
	require.Same(t, large, cycle(1))
	require.NotSame(t, large, cycle(50000))
	memories := 0
	for _, file := range entries("/proc/self/fd") {
		if strings.Contains(file, "stapsdt-parked") {
			memories++
		}
	}
	require.Equal(t, 1, memories)
}
