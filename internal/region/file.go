//go:build linux

package region

import (
	"errors"
	"fmt"
	"os"
	"path"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/descriptor"

	"golang.org/x/sys/unix"
)

// maxName is the largest number of bytes that a provider's name adds to its file's name.
const maxName = 200

// fileName returns the name of an image's file. The name contains a hash of the content, so
// that processes with the same probes use the same file.
func fileName(provider string, id [16]byte) string {
	return fmt.Sprintf("%.*s-%x.so", maxName, trim(provider, maxName), id)
}

// trim cuts a string to at most n bytes, at the boundary of a character.
func trim(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}

// attempts limits how often openFile looks for a file that other processes replace at the
// same time. lockPatience limits how long a process waits for its turn to replace a bad
// file.
const (
	attempts     = 10
	lockPatience = time.Second
)

// openFile opens the file in a directory that has the name and the bytes of the image. It
// writes the file if it does not exist.
func openFile(dirfd int, name string, image []byte) (int, error) {
	for range attempts {
		fd, err := openGood(dirfd, name, image)
		switch {
		case err == nil:
			return fd, nil
		case errors.Is(err, errBadFile):
			err = removeBad(dirfd, name, image)
		case err == unix.ENOENT:
			// The next attempt opens it by its name: the descriptor that it
			// was written through has another name in /proc/PID/maps, where
			// tracers look.
			err = writeFile(dirfd, name, image)
			if err == unix.EEXIST {
				err = nil // another process was first
			}
		}
		if err != nil {
			return -1, err
		}
	}
	return -1, errors.New("the file keeps changing")
}

// errBadFile is wrapped by the errors for an existing file that is not the image.
var errBadFile = errors.New("another file has the image's name")

// openGood opens a file that is the image: a regular file with those bytes, which no other
// user can write to.
func openGood(dirfd int, name string, image []byte) (int, error) {
	// If there is a FIFO instead of the file, opening it must not block.
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := descriptor.Open(dirfd, name, flags, 0)
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
	same, err := holds(fd, image)
	if err == nil && !same {
		return errBadFile
	}
	return err
}

// removeBad removes a file that has the image's name but is not the image. Processes that do
// this at the same time take turns: otherwise the second would remove the good file that
// the first has put there and mapped by then.
func removeBad(dirfd int, name string, image []byte) error {
	if err := lock(dirfd); err != nil {
		return fmt.Errorf("%w, and the directory cannot be locked: %w", errBadFile, err)
	}
	defer unix.Flock(dirfd, unix.LOCK_UN)

	fd, err := openGood(dirfd, name, image)
	if err == nil {
		return unix.Close(fd)
	}
	if !errors.Is(err, errBadFile) {
		return nil // it is gone or cannot be opened: the next attempt finds out
	}
	if err := unix.Unlinkat(dirfd, name, 0); err != nil && err != unix.ENOENT {
		return fmt.Errorf("%w, and it cannot be removed: %w", errBadFile, err)
	}
	return nil
}

// lock makes processes that change the content of a directory take turns. It does not wait
// forever, because a process that may only read the directory can hold the lock too.
func lock(dirfd int) error {
	for start := time.Now(); ; {
		err := unix.Flock(dirfd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || err != unix.EWOULDBLOCK && err != unix.EINTR ||
			time.Since(start) > lockPatience {
			return err
		}
		// time.Sleep would start the runtime's poller: see StartPoller.
		pause := unix.NsecToTimespec(int64(time.Millisecond))
		_ = unix.Nanosleep(&pause, nil)
	}
}

// writeFile writes an image to a new file, which gets its name when it is complete. It
// returns EEXIST if another process has created the file first.
func writeFile(dirfd int, name string, image []byte) error {
	err := writeUnnamed(dirfd, name, image)
	switch err {
	case nil, unix.EEXIST, unix.ENOSPC, unix.EDQUOT:
		return err
	}
	// The file system does not support O_TMPFILE, or there is no /proc.
	return writeNamed(dirfd, name, image)
}

// writeUnnamed writes a file that has no name until it is complete, so that a process that
// dies before that leaves nothing.
func writeUnnamed(dirfd int, name string, image []byte) error {
	fd, err := descriptor.Open(dirfd, ".", unix.O_TMPFILE|unix.O_WRONLY, 0o400)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := fill(fd, image); err != nil {
		return err
	}
	return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), dirfd, name, unix.AT_SYMLINK_FOLLOW)
}

// tempName is the name of a file that is being written. It is the same for all files of a
// directory, so that processes that die leave at most one, which the next process removes.
const tempName = ".writing"

// writeNamed writes a file under another name and then links it to the right one. It never
// renames the file, because processes that have mapped an earlier file of that name would
// lose its path.
func writeNamed(dirfd int, name string, image []byte) error {
	if err := lock(dirfd); err != nil {
		return err
	}
	defer unix.Flock(dirfd, unix.LOCK_UN)
	unix.Unlinkat(dirfd, tempName, 0)
	const flags = unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY | unix.O_NOFOLLOW
	fd, err := descriptor.Open(dirfd, tempName, flags, 0o400)
	if err != nil {
		return err
	}
	defer unix.Unlinkat(dirfd, tempName, 0)
	defer unix.Close(fd)
	if err := fill(fd, image); err != nil {
		return err
	}
	return unix.Linkat(dirfd, tempName, dirfd, name, 0)
}

// fill writes an image to a new file. It does not sync the file: every process compares the
// bytes of a file that it finds, so an incomplete one left by a crash of the machine is
// replaced.
func fill(fd int, image []byte) error {
	if err := write(fd, image); err != nil {
		return err
	}
	// The umask may have removed the permission to read. The sticky bit, which has no
	// other meaning for a file, protects it from programs that clean /tmp by age
	// (systemd's tmpfiles.d(5)): no process reads a mapped file, so that it looks old.
	// If the bit cannot be set, this is no reason to fail.
	if unix.Fchmod(fd, 0o400|unix.S_ISVTX) == nil {
		return nil
	}
	return unix.Fchmod(fd, 0o400)
}

// placeFile puts an image into a directory.
func placeFile(dir, name string, image []byte) (*Home, error) {
	dirfd, err := openDirectory(dir, checkFileSystem)
	if err != nil {
		return nil, err
	}
	full := path.Join(dir, name)
	fd, err := openFile(dirfd, name, image)
	if err != nil {
		unix.Close(dirfd)
		return nil, &os.PathError{Op: "write", Path: full, Err: err}
	}
	return &Home{path: full, fd: fd, dirfd: dirfd}, nil
}
