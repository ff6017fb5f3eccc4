//go:build linux

// Package descriptor opens descriptors above those of the standard files. If the program has closed
// its standard files, as a daemon does, the kernel gives their numbers to the next files, and what
// the program still prints would end up there. To print to a socket that is closed at the other end
// would even end a Go program, by SIGPIPE.
package descriptor

import "golang.org/x/sys/unix"

// Openat is openat(2) with O_CLOEXEC, repeated if a signal interrupts it, as can happen on a
// network file system. The descriptor can have any number: close it soon, and do not write to it.
func Openat(dir int, path string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, path, flags|unix.O_CLOEXEC, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// Names returns the names in a directory, as far as they can be read, without those of itself and
// its parent. (os.ReadDir would add a tenth of package probeenv's size to every program.)
func Names(dir int) (all []string) {
	fd, err := Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	buffer := make([]byte, 4096)
	for {
		n, err := unix.ReadDirent(fd, buffer)
		if err == unix.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			return all
		}
		_, _, all = unix.ParseDirent(buffer[:n], -1, all)
	}
}

// Open is Openat for a descriptor that stays open, or to which something is written: see New.
func Open(dir int, path string, flags int, mode uint32) (int, error) {
	return New(func() (int, error) { return Openat(dir, path, flags, mode) })
}

// Socket is socket(2) for a stream whose address is a path, and for calls that do not block: see
// New.
func Socket() (int, error) {
	return New(func() (int, error) {
		return unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	})
}

// New returns the descriptor that open opens, which must have the flag CLOEXEC. It never has the
// number of a standard file, not even until it is moved: another thread could have begun to print
// to that number.
func New(open func() (int, error)) (int, error) {
	defer Occupy()()
	fd, err := open()
	if err != nil {
		return -1, err
	}
	return lift(fd)
}

// Occupy makes the standard descriptors that are closed refer to a path that cannot be
// written to, until release is called. It is no error if that is impossible.
func Occupy() (release func()) {
	var held []int
	for number := range unix.Stderr + 1 {
		if _, err := unix.FcntlInt(uintptr(number), unix.F_GETFD, 0); err != unix.EBADF {
			continue
		}
		fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err == nil {
			held = append(held, fd)
		}
	}
	return func() {
		var root unix.Stat_t
		if len(held) == 0 || unix.Stat("/", &root) != nil {
			return
		}
		for _, fd := range held {
			// A daemon may have just put another file under the number.
			if file, err := InodeOf(fd); err == nil && file == (Inode{uint64(root.Dev), root.Ino}) {
				unix.Close(fd)
			}
		}
	}
}

// lift moves a descriptor that has the number of a standard file all the same, because another
// thread has just closed that file.
func lift(fd int) (int, error) {
	if fd > unix.Stderr {
		return fd, nil
	}
	lifted, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, unix.Stderr+1)
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	// A daemon may have just put another file under the number.
	low, _ := InodeOf(fd)
	if high, err := InodeOf(lifted); err == nil && low == high {
		unix.Close(fd)
	}
	return lifted, nil
}

// Inode identifies an open file.
type Inode struct{ Dev, Ino uint64 }

// InodeOf returns the file of a descriptor.
func InodeOf(fd int) (Inode, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return Inode{uint64(st.Dev), st.Ino}, err
}
