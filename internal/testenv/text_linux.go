package testenv

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// MissingText returns a text on a page that is not there, as of a file that was truncated. A read of it
// faults. It is mapped until the test ends.
func MissingText(t testing.TB) string {
	t.Helper()
	fd, err := unix.MemfdCreate("text", 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Ftruncate(fd, 4096))
	page, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Munmap(page) })
	require.NoError(t, unix.Ftruncate(fd, 0))
	// SAFETY: nothing writes to the page, and the callers want the fault.
	return unsafe.String(&page[0], 16)
}
