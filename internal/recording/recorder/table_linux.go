package recorder

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// newTable maps a table, and returns a function that unmaps it. A child that is forked without exec
// finds it filled with zeros, so that its fires find no slot: otherwise they would write into the
// parent's chunks.
func newTable() (t *table, free func()) {
	b, err := unix.Mmap(
		-1, 0, int(tableBytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS,
	)
	if err != nil {
		return new(table), func() {} // there is no memory for a mapping, or there are too many
	}
	_ = unix.Madvise(b, unix.MADV_WIPEONFORK) // since Linux 4.14
	// SAFETY: the mapping has the size of a table, begins at a page, and is unmapped when the
	// writer, which every fire in it keeps alive, is unreachable.
	return (*table)(unsafe.Pointer(unsafe.SliceData(b))), func() { _ = unix.Munmap(b) }
}
