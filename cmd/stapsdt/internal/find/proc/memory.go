//go:build linux

package proc

import (
	"fmt"
	"io"
	"os"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/deputy"
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

// Traced reports whether a tracer is attached to an offset of a file that the process has mapped:
// if so, the kernel has replaced the instruction. The semaphore is not used, because several sites
// can share it, and it is raised earlier. known is false if the memory cannot be read.
func (m *Memory) Traced(file io.ReaderAt, mappings []Mapping, offset uint64) (traced, known bool) {
	var now, nop [1]byte
	if _, err := file.ReadAt(nop[:], int64(offset)); err != nil ||
		!m.read(mappings, offset, now[:]) {
		return false, false
	}
	return now != nop, true
}

// read reads the process's executable memory of an offset of the file. The same page of a file
// can be part of several mappings.
func (m *Memory) read(mappings []Mapping, offset uint64, to []byte) bool {
	for _, at := range mappings {
		if at.Executable && at.Has(offset) {
			_, err := deputy.Reader{File: m.file}.ReadAt(to, int64(at.Start+offset-at.Offset))
			return err == nil
		}
	}
	return false
}
