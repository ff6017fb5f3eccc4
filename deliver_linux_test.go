package stapsdt

import (
	"runtime/debug"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestObservedFault: a text that faults, as of a file that was truncated, panics in the program, as it
// has asked for, and not in an observer.
func TestObservedFault(t *testing.T) {
	p := newProvider(t, "fault")
	probe := NewProbe1[string](p, "probe")
	lines := watch(t, p)
	fd, err := unix.MemfdCreate("text", 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Ftruncate(fd, 4096))
	page, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	defer unix.Munmap(page)
	require.NoError(t, unix.Ftruncate(fd, 0))
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	// SAFETY: the page is mapped until the test ends, and a read of it faults, which then panics.
	require.Panics(t, func() { probe.Fire(unsafe.String(&page[0], 16)) })
	probe.Fire("text")
	require.Equal(t, []string{`fault:probe("text")`}, lines())
	requireNoneObserves(t)
}
