//go:build linux

package region

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/image"

	"golang.org/x/sys/unix"
)

// This file maps executable memory and returns pointers into it. The pointers stay valid
// because a Space unmaps no address before Free. A single mmap or mremap turns a live range
// into a parked one, or a parked range into a live one. So there is no moment at which a
// goroutine that loaded a site's address earlier could read or call unmapped memory: it
// finds a site or a parked slot. Both can be entered, and returned to, at every point at
// which a thread can be in the other (see parkedSlot). The exception is a live ten-byte nop,
// which cannot be entered in its middle: before parking one, the caller of Park makes sure
// that no thread is there.

// Space is the address ranges of one provider. The zero Space is empty. Its methods are not
// safe for concurrent use, but calling into its ranges is.
type Space struct {
	ranges []*span
	live   *span // the range of the published sites, or nil
}

// span is a range of whole pages.
type span struct {
	addr unsafe.Pointer
	size uintptr // a power of two of pages
	// phase is the offset of the first site in its page, and nop the nop of the
	// sites. The slots of an image with the same phase and nop have the addresses
	// of its predecessor's slots.
	phase   uintptr
	nop     *image.Nop
	mapping Mapping // the mapping of the live image
}

// Mapping describes the pages of a loaded image that hold its sites.
type Mapping struct {
	Start  unsafe.Pointer
	Size   uintptr
	Offset uint64 // offset in the file
}

// name returns the name of the mapping in /proc/PID/map_files.
func (m *Mapping) name() string {
	return fmt.Sprintf("%x-%x", uintptr(m.Start), uintptr(m.Start)+m.Size)
}

// Live returns the mapping of the live image.
func (s *Space) Live() Mapping { return s.live.mapping }

// Sites locates the sites of a mapped image.
type Sites struct{ first unsafe.Pointer }

// At returns the address of site i.
func (s Sites) At(i int) *byte {
	// SAFETY: the image was mapped with at least i+1 slots, and stays mapped or parked
	// until its Space is freed.
	return (*byte)(unsafe.Add(s.first, i*image.SlotSize))
}

// Map maps the pages of an image that hold its sites, readable and executable. fd is the
// descriptor of the file or memory that holds the image. If Map fails, nothing has changed.
func (s *Space) Map(fd int, im *image.Image) (Sites, error) {
	page := uintptr(os.Getpagesize())
	start := im.Text &^ uint64(page-1)
	end := (im.Text + max(im.TextSize(), 1) + uint64(page) - 1) &^ uint64(page-1)
	size, phase := uintptr(end-start), uintptr(im.Text-start)

	const prot = unix.PROT_READ | unix.PROT_EXEC
	r := s.find(size, phase, im.Nop)
	if r != nil {
		// SAFETY: the range belongs to this Space, is parked, and has at least size
		// bytes. Its present content may be replaced at any moment.
		const flags = unix.MAP_PRIVATE | unix.MAP_FIXED
		if _, err := unix.MmapPtr(fd, int64(start), r.addr, size, prot, flags); err != nil {
			return Sites{}, err
		}
	} else {
		addr, whole, err := mapNew(fd, int64(start), size, page, prot)
		if err != nil {
			return Sites{}, err
		}
		r = &span{addr: addr, size: whole, phase: phase, nop: im.Nop}
		s.ranges = append(s.ranges, r)
	}
	r.mapping = Mapping{Start: r.addr, Size: size, Offset: start}
	s.live = r
	// SAFETY: phase is less than a page, and the mapping has at least one.
	return Sites{unsafe.Add(r.addr, phase)}, nil
}

// mapNew maps size bytes of a file, from start on, at a new address. The range that it
// returns is up to twice as large, a power of two of pages. So a provider that grows by one
// probe at a time can reuse it, and needs few ranges, which exist as long as the provider.
func mapNew(
	fd int, start int64, size, page uintptr, prot int,
) (addr unsafe.Pointer, whole uintptr, err error) {
	for whole = page; whole < size; whole *= 2 {
	}
	if whole == size {
		addr, err = unix.MmapPtr(fd, start, nil, size, prot, unix.MAP_PRIVATE)
		return addr, whole, err
	}
	addr, err = unix.MmapPtr(
		-1, 0, nil, whole, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE,
	)
	if err != nil {
		return nil, 0, err
	}
	// SAFETY: the range was mapped just above, and no other code has its address.
	const flags = unix.MAP_PRIVATE | unix.MAP_FIXED
	if _, err := unix.MmapPtr(fd, start, addr, size, prot, flags); err != nil {
		unix.MunmapPtr(addr, whole)
		return nil, 0, err
	}
	return addr, whole, nil
}

// find returns a range over which an image of this shape can be mapped, or nil.
func (s *Space) find(size, phase uintptr, nop *image.Nop) *span {
	for _, r := range s.ranges {
		if r != s.live && r.size >= size && r.phase == phase && r.nop == nop {
			return r
		}
	}
	return nil
}

// errNotParked is returned if the pages of parked slots cannot be created.
var errNotParked = errors.New("the mapping cannot be replaced and is kept")

// Park replaces the live image with parked slots. Its sites must no longer be published;
// addresses that were loaded earlier can still be read and called. If Park fails, the image
// stays mapped, which is equally safe and only costs memory.
func (s *Space) Park() error {
	r := s.live
	s.live = nil
	if r == nil {
		return nil
	}
	if err := park(r); err != nil {
		return fmt.Errorf("%w: %w", errNotParked, err)
	}
	return nil
}

// Free unmaps everything. No address from the Space may be used afterwards.
func (s *Space) Free() {
	for _, r := range s.ranges {
		// SAFETY: the range belongs to this Space. The caller holds the last
		// reference: no provider or probe that refers to an address is left.
		unix.MunmapPtr(r.addr, r.size)
	}
	*s = Space{}
}
