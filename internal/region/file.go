//go:build linux

package region

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// maxName is the most bytes that a provider's name adds to its file's.
const maxName = 200

// fileName returns the name of an image's file: its content is in it, so that
// what has the same probes has the same file.
func fileName(provider string, id [16]byte) string {
	return fmt.Sprintf("%.*s-%x.so", maxName, trim(provider, maxName), id)
}

// trim cuts a string to at most n bytes, between characters.
func trim(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}

// attempts bounds how often a file is looked for again that other processes
// replace at the same time, and lockPatience how long a process waits for those
// that have come before it to replace a bad one.
const (
	attempts     = 10
	lockPatience = time.Second
)

// openFile opens the file of that name in a folder and of those bytes, and
// writes it when it is not there. It reports whether it was written now.
func openFile(folder int, name string, image []byte) (fd int, fresh bool, err error) {
	for range attempts {
		fd, err = openGood(folder, name, image)
		switch {
		case err == nil:
			return fd, fresh, nil
		case errors.Is(err, errBadFile):
			err = removeBad(folder, name, image)
		case err == unix.ENOENT:
			// It is opened again by its name then: what it was written
			// through has another one in /proc/PID/maps, where tracers look.
			err = writeFile(folder, name, image)
			fresh = err == nil
			if err == unix.EEXIST {
				err = nil // another process was first
			}
		}
		if err != nil {
			return -1, false, err
		}
	}
	return -1, false, errors.New("the file keeps changing")
}

// errBadFile is wrapped by what is said of a file that is there and is not the
// image.
var errBadFile = errors.New("another file has the image's name")

// openGood opens a file that is the image: a regular file, written by nobody
// else, with those bytes.
func openGood(folder int, name string, image []byte) (int, error) {
	// A FIFO in its place must not block.
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := open(folder, name, flags, 0)
	switch err {
	case nil:
	case unix.ELOOP, unix.EACCES, unix.EPERM, unix.ENXIO, unix.ENODEV:
		return -1, fmt.Errorf("%w: %w", errBadFile, err) // a link, a device, a socket
	default:
		return -1, err
	}
	if err := checkFile(fd, image); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func checkFile(fd int, image []byte) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != int64(len(image)) {
		return errBadFile
	}
	if err := checkOwner(&st); err != nil {
		return fmt.Errorf("%w: %w", errBadFile, err)
	}
	buf := make([]byte, min(len(image), 64<<10))
	for at := 0; at < len(image); {
		n, err := unix.Pread(fd, buf[:min(len(buf), len(image)-at)], int64(at))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return err
		case n == 0 || !bytes.Equal(buf[:n], image[at:at+n]):
			return errBadFile
		}
		at += n
	}
	return nil
}

// removeBad removes what has the image's name and is not the image. Processes
// that do it at the same time take turns: the second would remove the good file
// that the first one's loader has put there, and mapped.
func removeBad(folder int, name string, image []byte) error {
	if err := lock(folder); err != nil {
		return fmt.Errorf("%w, and the folder cannot be locked: %w", errBadFile, err)
	}
	defer unix.Flock(folder, unix.LOCK_UN)

	fd, err := openGood(folder, name, image)
	if err == nil {
		return unix.Close(fd)
	}
	if !errors.Is(err, errBadFile) {
		return nil // gone, or not to be told: the next attempt sees
	}
	if err := unix.Unlinkat(folder, name, 0); err != nil && err != unix.ENOENT {
		return fmt.Errorf("%w, and it cannot be removed: %w", errBadFile, err)
	}
	return nil
}

// lock has those that change what is in a folder take turns. Nobody waits for ever:
// somebody who may only read the folder can hold the lock too.
func lock(folder int) error {
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		err := unix.Flock(folder, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || err != unix.EWOULDBLOCK && err != unix.EINTR || time.Since(start) > lockPatience {
			return err
		}
	}
}

// writeFile writes an image where no file is. It gets its name when it is
// complete. EEXIST tells that another process has put one there.
func writeFile(folder int, name string, image []byte) error {
	err := writeUnnamed(folder, name, image)
	switch err {
	case nil, unix.EEXIST, unix.ENOSPC, unix.EDQUOT:
		return err
	}
	// A file system without O_TMPFILE, or no /proc.
	return writeNamed(folder, name, image)
}

// writeUnnamed writes a file that has no name before it is complete, so that a
// process that dies on the way leaves nothing.
func writeUnnamed(folder int, name string, image []byte) error {
	fd, err := open(folder, ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o400)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := fill(fd, image); err != nil {
		return err
	}
	return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), folder, name, unix.AT_SYMLINK_FOLLOW)
}

// tempName is a file that is being written. There is one a folder, so that a
// process that dies leaves one at most, which the next removes.
const tempName = ".writing"

// writeNamed writes a file under another name, then links it to the right one. It
// never renames: that would take the path from processes that have mapped a file
// which came first.
func writeNamed(folder int, name string, image []byte) error {
	if err := lock(folder); err != nil {
		return err
	}
	defer unix.Flock(folder, unix.LOCK_UN)
	unix.Unlinkat(folder, tempName, 0)
	fd, err := open(folder, tempName, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o400)
	if err != nil {
		return err
	}
	defer unix.Unlinkat(folder, tempName, 0)
	defer unix.Close(fd)
	if err := fill(fd, image); err != nil {
		return err
	}
	return unix.Linkat(folder, tempName, folder, name, 0)
}

// fill writes an image to a new file. It is not synced: whoever finds the file
// compares its bytes, so a half one left by a crash of the machine is replaced.
func fill(fd int, image []byte) error {
	if err := write(fd, image); err != nil {
		return err
	}
	// The umask may have taken the right to read. The sticky bit, which has
	// no other meaning for a file, keeps it from those who clean /tmp by age
	// (systemd's tmpfiles.d(5)): a mapped file is read by nobody, and looks
	// old. Where the bit cannot be set, that is no reason to fail.
	if unix.Fchmod(fd, 0o400|unix.S_ISVTX) == nil {
		return nil
	}
	return unix.Fchmod(fd, 0o400)
}

// write writes all of content.
func write(fd int, content []byte) error {
	// More than the limit of a file (ulimit -f) is a signal, which ends a C program
	// that Go is a library of.
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &limit) == nil && uint64(len(content)) > limit.Cur {
		return unix.EFBIG
	}
	for len(content) > 0 {
		n, err := unix.Write(fd, content)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		content = content[n:]
	}
	return nil
}

// placeFile puts an image into a folder.
func placeFile(dir, name string, image []byte) (*Home, error) {
	folder, err := openFolder(dir)
	if err != nil {
		return nil, err
	}
	full := path.Join(dir, name)
	fd, fresh, err := openFile(folder, name, image)
	if err != nil {
		unix.Close(folder)
		return nil, &os.PathError{Op: "write", Path: full, Err: err}
	}
	return &Home{Path: full, fd: fd, folder: folder, name: name, fresh: fresh}, nil
}
