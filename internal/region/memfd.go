//go:build linux

package region

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mfdExec is MFD_EXEC: the memory may be mapped executable, which a system can
// have forbidden by default (sysctl vm.memfd_noexec). Linux 6.3.
const mfdExec = 0x10

// maxMemfdName is the longest name that the kernel takes.
const maxMemfdName = 249

// memfd is sealed memory that is kept open. A program may close descriptors that are
// not its own (closefrom of a daemon, a second Close of one), and another file gets
// the number: so it is compared before it is used or closed.
type memfd struct {
	fd   int
	file inode
}

// inode tells one open file from another.
type inode struct{ dev, ino uint64 }

func inodeOf(fd int) (inode, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return inode{st.Dev, st.Ino}, err
}

// there reports whether the descriptor is still that of the memory.
func (m *memfd) there() bool {
	file, err := inodeOf(m.fd)
	return err == nil && file == m.file
}

// close gives the memory back, unless it is gone.
func (m *memfd) close() {
	if file, err := inodeOf(m.fd); err != unix.EBADF && (err != nil || file == m.file) {
		unix.Close(m.fd)
	}
}

// newMemfd makes memory that holds content.
func newMemfd(name string, content []byte) (*memfd, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	name = trim(name, maxMemfdName)
	fd, err := unix.MemfdCreate(name, flags|mfdExec)
	if err == unix.EINVAL {
		fd, err = unix.MemfdCreate(name, flags) // Linux before 6.3
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	m := &memfd{fd: fd}
	err = write(fd, content)
	if err == nil {
		const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE | unix.F_SEAL_SEAL
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err == nil {
		m.file, err = inodeOf(fd)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("memfd: %w", err)
	}
	return m, nil
}

// placeMemfd puts an image into memory.
func placeMemfd(im *Image) (*Home, error) {
	m, err := newMemfd(im.Provider, im.Bytes)
	if err != nil {
		return nil, err
	}
	return &Home{Path: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), m.fd), fd: m.fd, memory: m, folder: -1}, nil
}
