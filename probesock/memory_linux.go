package probesock

import (
	"errors"
	"fmt"
	"os"

	"github.com/go-stapsdt/stapsdt/internal/region"

	"golang.org/x/sys/unix"
)

// memory is the memory that a watcher reads, mapped by this process. If the kernel has the seals,
// no other process can write to it, shorten it or replace it.
type memory struct {
	fd    int // valid until it was sent
	size  int64
	bytes []byte
	whole bool // it is allocated, and nobody can take a part of it away
}

// newMemory makes memory of a size. It allocates all of it, so that no fire finds memory exhausted.
func newMemory(pid uint32, size int64) (m *memory, err error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return nil, os.NewSyscallError("getrlimit", err)
	}
	if uint64(size) > limit.Cur { // the kernel would send SIGXFSZ
		return nil, fmt.Errorf("%d bytes are more than the limit of files (RLIMIT_FSIZE), %d", size, limit.Cur)
	}
	fd, err := region.CreateMemory(fmt.Sprintf("stapsdt-watch-%d", pid))
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	m = &memory{fd: fd, size: size}
	if err := m.fill(); err != nil {
		m.closeDescriptor()
		m.unmap()
		return nil, err
	}
	return m, nil
}

// fill allocates, maps and seals the memory.
func (m *memory) fill() (err error) {
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Fallocate(m.fd, 0, 0, m.size)
	}
	m.whole = err == nil
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		err = unix.Ftruncate(m.fd, m.size)
	}
	if err != nil {
		return os.NewSyscallError("fallocate", err)
	}
	const both = unix.PROT_READ | unix.PROT_WRITE
	if m.bytes, err = unix.Mmap(m.fd, 0, int(m.size), both, unix.MAP_SHARED); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	// A child that is forked without exec does not inherit it.
	_ = unix.Madvise(m.bytes, unix.MADV_DONTFORK)
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	_, err = unix.FcntlInt(uintptr(m.fd), unix.F_ADD_SEALS, seals|unix.F_SEAL_FUTURE_WRITE)
	if err == unix.EINVAL {
		m.whole = false                                                // a watcher can punch holes
		_, err = unix.FcntlInt(uintptr(m.fd), unix.F_ADD_SEALS, seals) // Linux before 5.1
	}
	return os.NewSyscallError("fcntl", err)
}

// closeDescriptor closes the descriptor. The memory stays.
func (m *memory) closeDescriptor() {
	if m.fd >= 0 {
		unix.Close(m.fd)
		m.fd = -1
	}
}

// unmap unmaps the memory. No fire may write to it after that.
func (m *memory) unmap() {
	if m.bytes != nil {
		_ = unix.Munmap(m.bytes)
		m.bytes = nil
	}
}
