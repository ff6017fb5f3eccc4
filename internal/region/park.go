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

// parkedSlot returns the code that replaces a site while its provider is not loaded. Its
// first byte reads as idle. It returns from every point at which a thread that entered the
// site can be, or to which it can come back:
//
//   - With the one-byte and the five-byte nop: at the nop, or after it.
//   - The ten-byte nop, once the kernel has optimized it, is a "lea -0x80(%rsp),
//     %rsp" of five bytes and a call. A thread can be between the two, with the
//     stack pointer lowered: the code there raises it again.
//   - On any other architecture: at the nop, which reads as idle, or after it. The
//     code is itself a site, but no tracer can find it there.
func parkedSlot(nop *image.Nop) [image.SlotSize]byte {
	if runtime.GOARCH != "amd64" {
		return image.Host().Slot(nop)
	}
	slot := [image.SlotSize]byte(bytes.Repeat([]byte("\xc3"), image.SlotSize)) // ret
	if nop.Split {
		copy(slot[5:], "\x48\x83\xec\x80") // sub $-0x80, %rsp
	}
	return slot
}

// parkMemory is the process's sealed memory full of parked slots.
var parkMemory struct {
	sync.Mutex
	memory *memfd // nil until it is needed
	size   uintptr
	nop    *image.Nop
}

// The two ways to park. Tests make them fail.
var (
	parkShared    = realParkShared
	parkAnonymous = realParkAnonymous
)

// park replaces a range with parked slots.
func park(r *span) error {
	err := parkShared(r)
	if err != nil {
		// A memfd cannot be created or executed. This is the only place where
		// anonymous memory becomes executable.
		err = parkAnonymous(r)
	}
	return err
}

// realParkShared maps the process's parked slots over a range.
func realParkShared(r *span) error {
	parkMemory.Lock()
	defer parkMemory.Unlock()
	if parkMemory.size < r.size || parkMemory.nop != r.nop || !parkMemory.memory.there() {
		// The size of a range is a power of two of pages, so that a provider that
		// grows does not need new memory each time.
		slot := parkedSlot(r.nop)
		memory, err := newMemfd("stapsdt-parked", bytes.Repeat(slot[:], int(r.size/image.SlotSize)))
		if err != nil {
			return err
		}
		if parkMemory.memory != nil {
			parkMemory.memory.close()
		}
		parkMemory.memory, parkMemory.size, parkMemory.nop = memory, r.size, r.nop
	}
	const prot, flags = unix.PROT_READ | unix.PROT_EXEC, unix.MAP_PRIVATE | unix.MAP_FIXED
	// SAFETY: the range belongs to the Space. From every address at which a thread can
	// be in it, the slots return.
	_, err := unix.MmapPtr(parkMemory.memory.fd, 0, r.addr, r.size, prot, flags)
	return err
}

// realParkAnonymous moves anonymous pages of parked slots over a range. The pages are never
// both writable and executable, and no other thread knows their address before they are
// moved.
func realParkAnonymous(r *span) error {
	addr, err := unix.MmapPtr(
		-1, 0, nil, r.size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS,
	)
	if err != nil {
		return err
	}
	// SAFETY: the pages were mapped just above, writable, with r.size bytes.
	pages := unsafe.Slice((*byte)(addr), r.size)
	slot := parkedSlot(r.nop)
	for at := 0; at < len(pages); at += copy(pages[at:], slot[:]) {
	}
	if err := unix.Mprotect(pages, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		unix.MunmapPtr(addr, r.size)
		return err
	}
	const flags = unix.MREMAP_MAYMOVE | unix.MREMAP_FIXED
	// SAFETY: both ranges are ours and consist of whole pages, r.size bytes each. The
	// first ceases to exist; the second is parked in one step.
	_, _, errno := unix.Syscall6(
		unix.SYS_MREMAP, uintptr(addr), r.size, r.size, flags, uintptr(r.addr), 0,
	)
	if errno != 0 {
		unix.MunmapPtr(addr, r.size)
		return errno
	}
	return nil
}
