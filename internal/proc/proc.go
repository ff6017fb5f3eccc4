//go:build linux

// Package proc reads the small files with which the kernel describes a process to itself.
package proc

import "golang.org/x/sys/unix"

// Read returns the first bytes of a file, at most max. It returns the bytes that can be read:
// none if the file cannot be opened. (os.ReadFile would add a third of this module's size to
// every program.)
func Read(path string, max int) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	content := make([]byte, max)
	size := 0
	for size < max {
		n, err := unix.Read(fd, content[size:])
		if err == unix.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			break
		}
		size += n
	}
	return content[:size]
}
