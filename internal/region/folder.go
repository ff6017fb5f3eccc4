//go:build linux

package region

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// errNotOurs is wrapped by what is refused because somebody else could change
// what is in it.
var errNotOurs = errors.New("somebody else could write to it")

// folders returns the folders that images may be kept in, best first. Which of
// them can be used is seen when one is opened.
func folders(dir string) []string {
	var list []string
	for _, d := range []string{dir, os.Getenv("STAPSDT_DIR")} {
		if d == "" {
			continue
		}
		if abs, err := absolute(d); err == nil {
			list = append(list, abs)
		}
	}
	if d := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(d) {
		list = append(list, filepath.Join(d, "stapsdt"))
	}
	if d := os.TempDir(); filepath.IsAbs(d) {
		list = append(list, filepath.Join(d, "stapsdt-"+strconv.Itoa(os.Geteuid())))
	}
	return list
}

// absolute returns a path from the root. (filepath.Abs would add a tenth of the
// package's size to every program.)
func absolute(path string) (string, error) {
	if filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Getcwd(buf)
	if err != nil {
		return "", err
	}
	return filepath.Join(unix.ByteSliceToString(buf[:n]), path), nil
}

// openFolder opens a folder that nobody but this user can write to, and makes it
// when it is not there: a file that is mapped executable must be ours. It
// returns a descriptor, which is what the files in it are reached through, so
// that the folder that was checked is the one that is used.
func openFolder(path string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := open(unix.AT_FDCWD, path, flags, 0)
	if err == unix.ENOENT {
		if err = unix.Mkdir(path, 0o700); err == nil || err == unix.EEXIST {
			fd, err = open(unix.AT_FDCWD, path, flags, 0)
		}
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	if err := checkFolder(fd); err != nil {
		unix.Close(fd)
		return -1, &os.PathError{Op: "use", Path: path, Err: err}
	}
	return fd, nil
}

func checkFolder(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if err := checkOwner(&st); err != nil {
		return err
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err == nil && fs.Flags&unix.ST_NOEXEC != 0 {
		return errors.New("mounted noexec")
	}
	return nil
}

// checkOwner refuses what is not this user's, or what others can write to.
func checkOwner(st *unix.Stat_t) error {
	if st.Uid != uint32(os.Geteuid()) {
		return fmt.Errorf("it is owned by user %d: %w", st.Uid, errNotOurs)
	}
	if st.Mode&0o022 != 0 {
		return fmt.Errorf("its mode is %#o: %w", st.Mode&0o7777, errNotOurs)
	}
	return nil
}

// open is openat, again when a signal interrupts it, as it may on a network's
// file system.
func open(dir int, path string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, path, flags, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}
