//go:build linux

package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/deputy"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
)

// Memory reads the memory of a process, to see which sites are traced now.
type Memory struct{ file *os.File }

// OpenMemory opens the memory of a process. It may require CAP_SYS_PTRACE.
func OpenMemory(pid int) (*Memory, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/mem", Task(pid)))
	if err != nil {
		return nil, Wrap(pid, err)
	}
	return &Memory{file}, nil
}

// Close closes the memory.
func (m *Memory) Close() error { return m.file.Close() }

// Traced returns for each offset of a file that the process has mapped whether a tracer is attached
// to it: if so, the kernel has replaced the instruction. The semaphore is not used, because several
// sites can share it, and it is raised earlier. The result lacks the offsets whose memory cannot be
// read, and all further ones if the memory does not answer.
func (m *Memory) Traced(file io.ReaderAt, mappings []Mapping, offsets []uint64) map[uint64]bool {
	return traced(deputy.Reader{File: m.file}, file, mappings, offsets)
}

// traced reads the memory of neighboring offsets at once: each read can involve another process.
func traced(
	memory, file io.ReaderAt, mappings []Mapping, offsets []uint64,
) map[uint64]bool {
	page := uint64(os.Getpagesize())
	all := make(map[uint64]bool, len(offsets))
	for left := slices.Sorted(slices.Values(offsets)); len(left) > 0; {
		first := left[0]
		has := func(m Mapping) bool { return m.Executable && m.Has(first) }
		i := slices.IndexFunc(mappings, has)
		if i < 0 {
			left = left[1:]
			continue
		}
		near := neighbors(left, &mappings[i], page)
		code := make([]byte, near[len(near)-1]-first+1)
		now := make([]byte, len(code))
		n, _ := file.ReadAt(code, int64(first))
		n, err := memory.ReadAt(now[:n], int64(mappings[i].Start+first-mappings[i].Offset))
		for _, offset := range near {
			if at := offset - first; at < uint64(n) {
				all[offset] = now[at] != code[at]
			}
		}
		if errors.Is(err, stall.Err) {
			break
		}
		next := first + uint64(len(code))
		if n < len(code) { // this page cannot be read
			next = (first+uint64(n))/page*page + page
		}
		at, _ := slices.BinarySearch(left, next)
		left = left[at:]
	}
	return all
}

// maxNear is the maximum number of bytes between the offsets that are read at once.
const maxNear = 64 << 10

// neighbors returns the first of the sorted offsets that are in a mapping, without a page between
// them: memory without sites is not read.
func neighbors(sorted []uint64, m *Mapping, page uint64) []uint64 {
	n := 1
	for n < len(sorted) && m.Has(sorted[n]) && sorted[n]-sorted[0] < maxNear &&
		sorted[n]/page <= sorted[n-1]/page+1 {
		n++
	}
	return sorted[:n]
}
