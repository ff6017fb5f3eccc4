//go:build linux

package region

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// write writes all of content to the beginning of a file. It does not use the file's offset,
// which could have moved if another file got the descriptor's number.
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
