//go:build linux

package proc

import (
	"fmt"
	"io"
	"os"
)

// Memory reads the memory of a process, to see what is traced in it now.
type Memory struct{ file *os.File }

// OpenMemory opens the memory of a process, for which CAP_SYS_PTRACE may be needed.
func OpenMemory(pid int) (*Memory, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return nil, Wrap(pid, err)
	}
	return &Memory{file}, nil
}

// Close closes the memory.
func (m *Memory) Close() error { return m.file.Close() }

// Traced reports whether a tracer is attached to an offset of a file that the process has
// mapped: the kernel has then replaced the instruction. The semaphore, which several sites can
// share, is raised before that. It reports false for known if the memory cannot be read.
func (m *Memory) Traced(file io.ReaderAt, mappings []Mapping, offset uint64) (traced, known bool) {
	var now, nop [1]byte
	if _, err := file.ReadAt(nop[:], int64(offset)); err != nil || !m.read(mappings, offset, now[:]) {
		return false, false
	}
	return now != nop, true
}

// read reads what is at an offset of the file where the process can execute it. The same
// page of a file can be part of several mappings.
func (m *Memory) read(mappings []Mapping, offset uint64, to []byte) bool {
	for _, at := range mappings {
		if at.Executable && offset >= at.Offset && offset-at.Offset < at.End-at.Start {
			_, err := m.file.ReadAt(to, int64(at.Start+offset-at.Offset))
			return err == nil
		}
	}
	return false
}
