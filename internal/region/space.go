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

// This file maps executable memory and hands out pointers into it. What keeps
// them good: a Space never unmaps an address before Free. A live range becomes a
// parked one, and a parked one a live one, by a single mmap or mremap over it,
// so that there is no moment at which a goroutine that loaded a site's address
// earlier could read or call nothing. What it finds is a site or a parked slot,
// and both can be entered, and returned to, at every point at which a thread
// can stand in the other (see parkedSlot). The exception is a live ten-byte nop,
// which cannot be entered in its middle: whoever parks those sees to it first
// that no thread stands there.

// Space is the address ranges of one provider. The zero Space is empty. Its
// methods are not safe for concurrent use; calling into it is.
type Space struct {
	ranges []*span
	live   *span // the one that sites are published from, or nil
}

// span is a range of whole pages.
type span struct {
	addr unsafe.Pointer
	size uintptr // a power of two of pages
	// phase is where in its first page the first site stands, and site its
	// kind. An image that has the same puts its slots where those of the one
	// before it were.
	phase uintptr
	site  string
}

// Sites is where the sites of a mapped image are.
type Sites struct{ first unsafe.Pointer }

// At returns the address of site i.
func (s Sites) At(i int) *byte {
	// SAFETY: the image was mapped with at least i+1 slots, and stays so, or
	// parked, until its Space is freed.
	return (*byte)(unsafe.Add(s.first, i*image.SlotSize))
}

// Map maps the pages of an image that hold its sites, readable and executable,
// from the descriptor of what keeps it. On failure nothing has changed.
func (s *Space) Map(fd int, im *Image) (Sites, error) {
	page := uintptr(os.Getpagesize())
	start := im.Text &^ uint64(page-1)
	end := (im.Text + max(im.TextSize, 1) + uint64(page) - 1) &^ uint64(page-1)
	size, phase := uintptr(end-start), uintptr(im.Text-start)

	const prot = unix.PROT_READ | unix.PROT_EXEC
	r := s.find(size, phase, im.Site)
	if r != nil {
		// SAFETY: the range is this Space's own, is parked, and no shorter
		// than size. What stands in it now may be replaced at any moment.
		if _, err := unix.MmapPtr(fd, int64(start), r.addr, size, prot, unix.MAP_PRIVATE|unix.MAP_FIXED); err != nil {
			return Sites{}, err
		}
	} else {
		addr, whole, err := mapNew(fd, int64(start), size, page, prot)
		if err != nil {
			return Sites{}, err
		}
		r = &span{addr: addr, size: whole, phase: phase, site: im.Site}
		s.ranges = append(s.ranges, r)
	}
	s.live = r
	return Sites{unsafe.Add(r.addr, phase)}, nil
}

// mapNew maps size bytes of a file, from start on, at a new address. The range
// that it returns is up to twice as large, a power of two of pages: a provider
// that grows by a probe at a time comes back to it, so that its ranges, which stay
// for as long as it does, are few.
func mapNew(fd int, start int64, size, page uintptr, prot int) (addr unsafe.Pointer, whole uintptr, err error) {
	for whole = page; whole < size; whole *= 2 {
	}
	if whole == size {
		addr, err = unix.MmapPtr(fd, start, nil, size, prot, unix.MAP_PRIVATE)
		return addr, whole, err
	}
	addr, err = unix.MmapPtr(-1, 0, nil, whole, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, 0, err
	}
	// SAFETY: the range was made just above, and nobody else has its address.
	if _, err := unix.MmapPtr(fd, start, addr, size, prot, unix.MAP_PRIVATE|unix.MAP_FIXED); err != nil {
		unix.MunmapPtr(addr, whole)
		return nil, 0, err
	}
	return addr, whole, nil
}

// find returns a range that an image of that shape can be mapped over, or nil.
func (s *Space) find(size, phase uintptr, site string) *span {
	for _, r := range s.ranges {
		if r != s.live && r.size >= size && r.phase == phase && r.site == site {
			return r
		}
	}
	return nil
}

// errNotParked is returned when the pages of returns cannot be had.
var errNotParked = errors.New("the mapping cannot be replaced and is kept")

// Park puts parked slots where the live image is. No site may be published from
// it any more; those that were loaded earlier can still be read and called.
// When it fails, the image stays mapped, which is as safe, and only costs its
// memory.
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

// Free unmaps everything. No address that came from the Space may be used
// afterwards.
func (s *Space) Free() {
	for _, r := range s.ranges {
		// SAFETY: the range is this Space's own. The caller holds the last
		// reference: no provider or probe that could lead here is left.
		unix.MunmapPtr(r.addr, r.size)
	}
	*s = Space{}
}
