//go:build linux

package proc

import (
	"io"
	"io/fs"
	"os"

	"github.com/go-stapsdt/stapsdt/internal/descriptor"

	"golang.org/x/sys/unix"
)

// open opens a file in /proc. os.Open would ask in vain whether the runtime can wait for the file,
// with five more system calls.
func open(path string) (*os.File, error) {
	fd, err := descriptor.Openat(unix.AT_FDCWD, path, unix.O_RDONLY, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
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
