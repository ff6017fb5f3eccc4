//go:build linux

package proc

import (
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// open opens a file in /proc. os.Open would ask in vain whether the runtime can wait for the file,
// with five more system calls.
func open(path string) (*os.File, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			return os.NewFile(uintptr(fd), path), nil
		}
		if err != unix.EINTR {
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// readFile returns the content of a file in /proc.
func readFile(path string) ([]byte, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}
