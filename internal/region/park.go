//go:build linux

package region

import (
	"bytes"
	"runtime"
	"sync"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/image"

	"golang.org/x/sys/unix"
)

// parkedSlot returns what stands in place of a site while its provider is not
// loaded. Its first byte reads as idle, and it returns wherever a thread that
// entered the site may stand, or come back to:
//
//   - The one- and the five-byte nop: at the nop, or behind it.
//   - The ten-byte nop, where the kernel optimised it, is a "lea -0x80(%rsp),
//     %rsp" of five bytes and a call. A thread may stand between the two, with
//     the stack pointer lowered: there it is raised again.
//   - The nop of any other architecture: at the nop, which is what reads as
//     idle, or behind it. That is a site itself, which nobody can trace here.
func parkedSlot(site string) [image.SlotSize]byte {
	if runtime.GOARCH != "amd64" {
		host := image.Host()
		return host.Slot(host.SiteByName(site))
	}
	slot := [image.SlotSize]byte(bytes.Repeat([]byte("\xc3"), image.SlotSize)) // ret
	if site == "nop10" {
		copy(slot[5:], "\x48\x83\xec\x80") // sub $-0x80, %rsp
	}
	return slot
}

// parked is sealed memory full of parked slots, one for the process.
var parked struct {
	sync.Mutex
	memory *memfd // nil while there is none
	size   uintptr
	site   string
}

// The two ways to park, which tests let fail.
var (
	parkShared    = realParkShared
	parkAnonymous = realParkAnonymous
)

// park replaces a range by parked slots.
func park(r *span) error {
	err := parkShared(r)
	if err != nil {
		// Where no memfd may be had or executed. This is the one place
		// where anonymous memory becomes executable.
		err = parkAnonymous(r)
	}
	return err
}

// realParkShared maps the process's parked slots over a range.
func realParkShared(r *span) error {
	parked.Lock()
	defer parked.Unlock()
	if parked.size < r.size || parked.site != r.site || !parked.memory.there() {
		// A range is a power of two of pages, so that a provider that grows
		// does not make this anew each time.
		slot := parkedSlot(r.site)
		memory, err := newMemfd("stapsdt-parked", bytes.Repeat(slot[:], int(r.size/image.SlotSize)))
		if err != nil {
			return err
		}
		if parked.memory != nil {
			parked.memory.close()
		}
		parked.memory, parked.size, parked.site = memory, r.size, r.site
	}
	const prot, flags = unix.PROT_READ | unix.PROT_EXEC, unix.MAP_PRIVATE | unix.MAP_FIXED
	// SAFETY: the range is the Space's own. A thread in it finds, at each
	// address it may stand at, a way back.
	_, err := unix.MmapPtr(parked.memory.fd, 0, r.addr, r.size, prot, flags)
	return err
}

// realParkAnonymous moves anonymous pages of parked slots over a range. They are
// never writable and executable at once, and nobody knows their address before
// they are moved.
func realParkAnonymous(r *span) error {
	addr, err := unix.MmapPtr(-1, 0, nil, r.size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	// SAFETY: the pages were mapped just above, size bytes, writable.
	pages := unsafe.Slice((*byte)(addr), r.size)
	slot := parkedSlot(r.site)
	for at := 0; at < len(pages); at += copy(pages[at:], slot[:]) {
	}
	if err := unix.Mprotect(pages, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		unix.MunmapPtr(addr, r.size)
		return err
	}
	const flags = unix.MREMAP_MAYMOVE | unix.MREMAP_FIXED
	// SAFETY: both ranges are of whole pages, r.size bytes, and ours. The
	// first is given up; the second is parked in one step.
	_, _, errno := unix.Syscall6(unix.SYS_MREMAP, uintptr(addr), r.size, r.size, flags, uintptr(r.addr), 0)
	if errno != 0 {
		unix.MunmapPtr(addr, r.size)
		return errno
	}
	return nil
}
