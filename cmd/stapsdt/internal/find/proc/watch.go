//go:build linux

package proc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Watcher learns from the kernel which processes map executable files, so that their probes
// are found at once, without waiting for the next look at all processes. It requires
// CAP_PERFMON or CAP_SYS_ADMIN.
type Watcher struct {
	rings []*mmapRing
}

// mmapRing is the perf event of one processor, with the memory for its records.
type mmapRing struct {
	fd     int
	memory []byte
}

// ringPages is the number of pages for the records of a processor.
const ringPages = 16

// NewWatcher begins to watch all processors that are online.
func NewWatcher() (_ *Watcher, err error) {
	cpus, err := onlineCPUs()
	if err != nil {
		return nil, err
	}
	w := &Watcher{}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	for _, cpu := range cpus {
		attr := &unix.PerfEventAttr{
			Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY,
			Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
			// byte
			Bits: unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitWatermark, Sample: 1,
			Wakeup: 1,
		}
		fd, err := unix.PerfEventOpen(attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			return nil, fmt.Errorf("watch processor %d: %w", cpu, err)
		}
		ring := &mmapRing{fd: fd}
		w.rings = append(w.rings, ring)
		ring.memory, err = unix.Mmap(
			fd, 0, (1+ringPages)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED,
		)
		if err != nil {
			return nil, fmt.Errorf("watch processor %d: %w", cpu, err)
		}
	}
	return w, nil
}

// Pending reports whether processes have mapped files since the last call of Mapped.
func (w *Watcher) Pending() bool {
	return slices.ContainsFunc(w.rings, func(r *mmapRing) bool {
		// SAFETY: as in read.
		page := (*unix.PerfEventMmapPage)(unsafe.Pointer(&r.memory[0]))
		return atomic.LoadUint64(&page.Data_head) != page.Data_tail
	})
}

// FDs returns descriptors that are readable when Pending is true.
func (w *Watcher) FDs() (fds []int) {
	for _, r := range w.rings {
		fds = append(fds, r.fd)
	}
	return fds
}

// Close stops watching.
func (w *Watcher) Close() {
	for _, r := range w.rings {
		if r.memory != nil {
			_ = unix.Munmap(r.memory)
		}
		unix.Close(r.fd)
	}
	w.rings = nil
}

// Mapped returns the processes that have mapped executable files since the last call, except for
// mappings for which skip returns true. It calls see for each mapping, but it does not call skip,
// which costs more than reading a record, for a process that is returned anyway. all is true if the
// kernel had no room for some records.
func (w *Watcher) Mapped(
	see func(pid int, m *Mapping), skip func(pid int, m *Mapping) bool,
) (pids []int, all bool) {
	told := map[int]bool{}
	for _, r := range w.rings {
		r.read(func(kind uint32, body []byte) {
			switch {
			case kind == unix.PERF_RECORD_LOST:
				all = true
			case kind == unix.PERF_RECORD_MMAP2:
				pid, m, ok := parseMmap2(body)
				if !ok {
					return
				}
				see(pid, m)
				if !told[pid] && !skip(pid, m) {
					told[pid] = true
				}
			}
		})
	}
	return slices.Sorted(maps.Keys(told)), all
}

// parseMmap2 reads a record of a file that was mapped (PERF_RECORD_MMAP2 in perf_event_open(2)).
func parseMmap2(body []byte) (pid int, m *Mapping, ok bool) {
	const address, length, device, inode, name = 8, 16, 32, 40, 64
	if len(body) < name {
		return 0, nil, false
	}
	word := binary.NativeEndian.Uint32
	start := binary.NativeEndian.Uint64(body[address:])
	path, _, _ := bytes.Cut(body[name:], []byte{0})
	return int(word(body)), &Mapping{
		Start: start, End: start + binary.NativeEndian.Uint64(body[length:]), Executable: true,
		File: File{
			unix.Mkdev(word(body[device:]), word(body[device+4:])),
			binary.NativeEndian.Uint64(body[inode:]),
			string(path),
		},
	}, true
}

// read calls yield for each record of the ring.
func (r *mmapRing) read(yield func(kind uint32, body []byte)) {
	// SAFETY: the kernel keeps this struct at the beginning of the memory, which begins at a
	// page, is larger than the struct, and stays mapped until Close.
	page := (*unix.PerfEventMmapPage)(unsafe.Pointer(&r.memory[0]))
	data := r.memory[os.Getpagesize():]
	mask := uint64(len(data) - 1)
	head, tail := atomic.LoadUint64(&page.Data_head), page.Data_tail
	for tail < head {
		// 8 bytes, never wrapped: the size of a record is a multiple of 8
		header := data[tail&mask:]
		kind, size := binary.NativeEndian.Uint32(header), uint64(
			binary.NativeEndian.Uint16(header[6:]),
		)
		if size < 8 || size > head-tail {
			tail = head // impossible
			break
		}
		body := make([]byte, size-8)
		for i := range body {
			body[i] = data[(tail+8+uint64(i))&mask]
		}
		yield(kind, body)
		tail += size
	}
	atomic.StoreUint64(&page.Data_tail, tail)
}

// onlineCPUs returns the numbers of the online processors. The kernel's list of them looks like
// "0-3,8".
func onlineCPUs() ([]int, error) {
	list, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, err
	}
	return parseCPUs(strings.TrimSpace(string(list)))
}

func parseCPUs(list string) (cpus []int, err error) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err := errors.Join(err1, err2); err != nil || from < 0 || to < from || to > 1<<16 {
			return nil, fmt.Errorf("the list of processors %q is invalid", list)
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
