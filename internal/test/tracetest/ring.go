//go:build linux

package tracetest

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ring is the memory in which the kernel writes the records of one event: a page of control, then the data.
type ring struct {
	mem  []byte
	page *unix.PerfEventMmapPage
	data []byte
	tail uint64
}

func mapRing(fd, size int) (*ring, error) {
	pageSize := os.Getpagesize()
	mem, err := unix.Mmap(fd, 0, pageSize+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map ring: %w", err)
	}
	return &ring{
		mem: mem,
		// SAFETY: the first page of the mapping is a perf_event_mmap_page. It belongs to the ring and is unmapped only
		// by close, after which page is nil and next is not called.
		page: (*unix.PerfEventMmapPage)(unsafe.Pointer(&mem[0])),
		data: mem[pageSize:],
	}, nil
}

// next copies the oldest record that was not read yet, its header included, and gives its room back to the kernel.
func (r *ring) next() ([]byte, bool, error) {
	// The kernel publishes data_head after the data, and reads data_tail before it writes again: the atomic accesses
	// are the barriers that perf_event_open(2) asks for.
	head := atomic.LoadUint64(&r.page.Data_head)
	if r.tail == head {
		return nil, false, nil
	}
	var header [8]byte
	if head-r.tail < uint64(len(header)) {
		return nil, false, errShortRecord
	}
	r.copyOut(header[:], r.tail)
	size := uint64(binary.NativeEndian.Uint16(header[6:]))
	if size < uint64(len(header)) || size > head-r.tail {
		return nil, false, fmt.Errorf("record of %d bytes among %d", size, head-r.tail)
	}
	record := make([]byte, size)
	r.copyOut(record, r.tail)
	r.tail += size
	atomic.StoreUint64(&r.page.Data_tail, r.tail)
	return record, true, nil
}

// copyOut reads from a position that counts on over the end of the data, which is a power of two long.
func (r *ring) copyOut(to []byte, at uint64) {
	from := int(at & uint64(len(r.data)-1))
	n := copy(to, r.data[from:])
	copy(to[n:], r.data)
}

func (r *ring) close() error {
	mem := r.mem
	r.mem, r.page, r.data = nil, nil, nil
	return unix.Munmap(mem)
}
