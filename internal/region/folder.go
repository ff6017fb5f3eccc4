//go:build linux

package region

import (
	"errors"
	"fmt"
	"os"
	"path" // path/filepath does work before main
	"slices"
	"strconv"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/proc"

	"golang.org/x/sys/unix"
)

// errNotOurs is wrapped by what is refused because somebody else could change
// what is in it.
var errNotOurs = errors.New("somebody else could write to it")

// secure reports whether the program got rights by being started (set-user-ID, file
// capabilities): AT_SECURE of getauxval(3).
func secure() bool {
	vector, err := unix.Auxv()
	if err != nil {
		return unix.Getuid() != unix.Geteuid() || unix.Getgid() != unix.Getegid()
	}
	for _, pair := range vector {
		if pair[0] == atSecure {
			return pair[1] != 0
		}
	}
	return false
}

// atSecure is AT_SECURE of linux/auxvec.h.
const atSecure = 23

// folders returns the folders that images may be kept in, best first. Which of
// them can be used is seen when one is opened.
func folders(dir string) []string {
	getenv := os.Getenv
	if secure() {
		// What the user sets must not say where a program with more rights
		// writes. (glibc's secure_getenv.)
		getenv = func(string) string { return "" }
	}
	var list []string
	for _, d := range []string{dir, getenv("STAPSDT_DIR")} {
		if d == "" {
			continue
		}
		if abs, err := absolute(d); err == nil {
			list = append(list, abs)
		}
	}
	if d := getenv("XDG_RUNTIME_DIR"); path.IsAbs(d) && isOurs(d) {
		list = append(list, path.Join(d, "stapsdt"))
	}
	d := getenv("TMPDIR")
	if d == "" {
		d = "/tmp"
	}
	if path.IsAbs(d) {
		list = append(list, path.Join(d, "stapsdt-"+strconv.Itoa(os.Geteuid())))
	}
	return list
}

// isOurs reports whether a folder is this user's. After sudo, $XDG_RUNTIME_DIR may be
// another's, whose own programs a folder of ours in it would stand in the way of.
func isOurs(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) == nil && st.Uid == uint32(os.Geteuid())
}

// absolute returns a path from the root. (filepath.Abs would add a tenth of the
// package's size to every program.)
func absolute(dir string) (string, error) {
	if path.IsAbs(dir) {
		return path.Clean(dir), nil
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Getcwd(buf)
	if err != nil {
		return "", err
	}
	return path.Join(unix.ByteSliceToString(buf[:n]), dir), nil
}

// openFolder opens a folder that nobody but this user can write to, and makes it
// when it is not there: a file that is mapped executable must be ours. It
// returns a descriptor, which is what the files in it are reached through, so
// that the folder that was checked is the one that is used.
func openFolder(dir string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := open(unix.AT_FDCWD, dir, flags, 0)
	if err == unix.ENOENT {
		if err = unix.Mkdir(dir, 0o700); err == nil || err == unix.EEXIST {
			fd, err = open(unix.AT_FDCWD, dir, flags, 0)
		}
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	if err := checkFolder(fd); err != nil {
		unix.Close(fd)
		return -1, &os.PathError{Op: "use", Path: dir, Err: err}
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
	if st.Uid == overflowUser && !allUsersMapped() {
		return fmt.Errorf("in this user namespace its owner cannot be told: %w", errNotOurs)
	}
	if st.Mode&0o022 != 0 {
		return fmt.Errorf("its mode is %#o: %w", st.Mode&0o7777, errNotOurs)
	}
	return nil
}

// overflowUser is what the kernel calls every user that has no number in a user
// namespace (user_namespaces(7)): the owner of a file, and a process that looks at
// itself.
const overflowUser = 65534

// allUsersMapped reports whether every user has a number here, so that nobody's is
// nobody else's.
func allUsersMapped() bool {
	users := strings.Fields(string(proc.Read("/proc/self/uid_map", 80)))
	return slices.Equal(users, []string{"0", "0", "4294967295"})
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
