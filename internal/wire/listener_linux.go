package wire

import (
	"github.com/go-stapsdt/stapsdt/internal/descriptor"

	"golang.org/x/sys/unix"
)

// Refuses reports whether a socket refuses connections: no process listens on it. If its queue is
// full, one does.
func Refuses(path string) bool {
	fd, err := descriptor.Socket()
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: path}) == unix.ECONNREFUSED
}
