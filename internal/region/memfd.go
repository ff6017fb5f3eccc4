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

// newMemfd returns the descriptor of sealed memory that holds content.
func newMemfd(name string, content []byte) (int, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	name = trim(name, maxMemfdName)
	fd, err := unix.MemfdCreate(name, flags|mfdExec)
	if err == unix.EINVAL {
		fd, err = unix.MemfdCreate(name, flags) // Linux before 6.3
	}
	if err != nil {
		return -1, os.NewSyscallError("memfd_create", err)
	}
	err = write(fd, content)
	if err == nil {
		const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE | unix.F_SEAL_SEAL
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("memfd: %w", err)
	}
	return fd, nil
}

// placeMemfd puts an image into memory.
func placeMemfd(im *Image) (*Home, error) {
	fd, err := newMemfd(im.Provider, im.Bytes)
	if err != nil {
		return nil, err
	}
	return &Home{Path: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd), fd: fd, folder: -1}, nil
}
