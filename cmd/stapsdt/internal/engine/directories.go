//go:build linux

package engine

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// directories hear from the kernel when a file in one of them is replaced, or may be copied by an overlay.
type directories struct {
	fd     int
	buffer [4096]byte
}

// watchDirectories watches the directories of paths.
func watchDirectories(paths []string) (*directories, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init", err)
	}
	d := &directories{fd: fd}
	for _, path := range paths {
		if _, err := unix.InotifyAddWatch(fd, filepath.Dir(path), unix.IN_MOVED_TO|unix.IN_CREATE|unix.IN_CLOSE_WRITE|unix.IN_ATTRIB); err != nil {
			d.close()
			return nil, os.NewSyscallError("inotify_add_watch", err)
		}
	}
	return d, nil
}

// changed reports whether that may have happened to a file since the last call.
func (d *directories) changed() (changed bool) {
	for {
		n, err := unix.Read(d.fd, d.buffer[:])
		if err != nil || n <= 0 {
			return changed
		}
		changed = true
	}
}

func (d *directories) close() { unix.Close(d.fd) }
