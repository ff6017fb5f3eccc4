//go:build linux

package region

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// Openat is openat(2) with O_CLOEXEC, repeated if a signal interrupts it, as can happen on a
// network file system.
func Openat(dir int, path string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, path, flags|unix.O_CLOEXEC, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// open is Openat with a descriptor above the standard ones.
func open(dir int, path string, flags int, mode uint32) (int, error) {
	fd, err := Openat(dir, path, flags, mode)
	if err != nil {
		return -1, err
	}
	return lift(fd)
}

// lift moves a descriptor above the standard ones. If the program has closed those, as a
// daemon does, the kernel reuses their numbers, and anything that the program still prints
// would end up in the image.
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
	low, _ := inodeOf(fd)
	if high, err := inodeOf(lifted); err == nil && low == high {
		unix.Close(fd)
	}
	return lifted, nil
}

// create opens a new file for writing. It never gives the file a standard descriptor, not even
// until it is lifted: a thread may have begun to print to the descriptor, and end after the file
// was compared with the image. Memory is sealed before the comparison, but a file cannot
// be sealed.
func create(dir int, path string, flags int, mode uint32) (int, error) {
	defer occupy()()
	return open(dir, path, flags, mode)
}

// occupy makes the standard descriptors that are closed refer to a path that cannot be
// written to, until release is called. It is no error if that is impossible.
func occupy() (release func()) {
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
			if file, err := inodeOf(fd); err == nil && file == (inode{uint64(root.Dev), root.Ino}) {
				unix.Close(fd)
			}
		}
	}
}

// inode identifies an open file.
type inode struct{ dev, ino uint64 }

func inodeOf(fd int) (inode, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return inode{uint64(st.Dev), st.Ino}, err
}

// write writes all of content to the beginning of a file. It does not use the file's offset,
// which anything printed to the descriptor before lift has moved.
func write(fd int, content []byte) error {
	// Writing beyond the limit of a file's size (ulimit -f) raises a signal, which ends
	// a C program that uses this Go code as a library.
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &limit) == nil && uint64(len(content)) > limit.Cur {
		return unix.EFBIG
	}
	for at := 0; at < len(content); {
		n, err := unix.Pwrite(fd, content[at:], int64(at))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		at += n
	}
	return nil
}

// holds reports whether a file of at least that size begins with content.
func holds(fd int, content []byte) (bool, error) {
	buf := make([]byte, min(len(content), 64<<10))
	for at := 0; at < len(content); {
		n, err := unix.Pread(fd, buf[:min(len(buf), len(content)-at)], int64(at))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return false, err
		case n == 0 || !bytes.Equal(buf[:n], content[at:at+n]):
			return false, nil
		}
		at += n
	}
	return true, nil
}
