package wire

import "golang.org/x/sys/unix"

// Refuses reports whether a socket refuses connections: no process listens on it. If its queue is
// full, one does.
func Refuses(path string) bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: path}) == unix.ECONNREFUSED
}
