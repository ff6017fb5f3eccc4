//go:build linux

package region

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-stapsdt/stapsdt/internal/descriptor"
	"github.com/go-stapsdt/stapsdt/internal/proc"

	"golang.org/x/sys/unix"
)

// errNotOurs is wrapped by the errors for files and directories that another user could
// change.
var errNotOurs = errors.New("another user could write to it")

// checkPath refuses a path that tracers cannot use: a colon ends the path in a probe
// specification, and a newline ends a line of /proc/PID/maps.
func checkPath(dir string) error {
	for _, r := range dir {
		if r == ':' || unicode.IsControl(r) {
			return fmt.Errorf("use %q: tracers cannot find probes in a path that contains %q", dir, r)
		}
	}
	return nil
}

const directoryFlags = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// openDirectory opens a directory that only this user can write to, because a file that is
// mapped executable must be ours. It creates the directory if it does not exist. The files
// in the directory are reached through the descriptor that it returns, so that the
// directory that was checked is the one that is used. check checks its file system.
func openDirectory(dir string, check func(*unix.Statfs_t) error) (int, error) {
	if err := checkPath(dir); err != nil {
		return -1, err
	}
	fd, err := descriptor.Open(unix.AT_FDCWD, dir, unix.O_RDONLY|directoryFlags, 0)
	if err == unix.ENOENT {
		fd, err = makeDirectory(dir, check)
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: dir, Err: orLink(dir, err)}
	}
	if err := checkDirectory(fd, check); err != nil {
		unix.Close(fd)
		return -1, &os.PathError{Op: "use", Path: dir, Err: err}
	}
	return fd, nil
}

// errLink is the error for a link, which is not opened: a user who can replace it could
// choose the directory.
var errLink = errors.New("it is a symbolic link")

// orLink returns errLink if the kernel refused to open dir because it is a link, for which
// the kernel's error is ENOTDIR. Any other error is returned as it is.
func orLink(dir string, err error) error {
	var st unix.Stat_t
	if err == unix.ENOTDIR && unix.Lstat(dir, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return errLink
	}
	return err
}

// makeDirectory creates a directory and opens it.
func makeDirectory(dir string, check func(*unix.Statfs_t) error) (int, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path.Dir(dir), &fs); err != nil {
		return -1, err
	}
	if err := check(&fs); err != nil {
		return -1, err // before anything is created
	}
	made, err := MakeDirectoryAt(unix.AT_FDCWD, dir)
	if err != nil {
		return -1, err
	}
	defer unix.Close(made)
	return descriptor.Open(made, ".", unix.O_RDONLY|directoryFlags, 0)
}

// MakeDirectoryAt creates a directory for this user alone, unless it exists, and returns an O_PATH
// descriptor of it. It follows no link in the last element of the name.
func MakeDirectoryAt(dirfd int, name string) (int, error) {
	if err := unix.Mkdirat(dirfd, name, 0o700); err != nil && err != unix.EEXIST {
		return -1, err
	}
	// This descriptor needs no permission, which the umask may have removed.
	made, err := descriptor.Open(dirfd, name, unix.O_PATH|directoryFlags, 0)
	if err != nil {
		return -1, err
	}
	if err := allowOwner(made); err != nil {
		unix.Close(made)
		return -1, err
	}
	return made, nil
}

// allowOwner gives the owner of a directory that was just created the permissions that the
// umask removed. It changes the file of the descriptor, because another user may have
// replaced the directory by a link since. It removes no permission, in case the descriptor
// refers to another directory of ours.
func allowOwner(dirfd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(dirfd, &st); err != nil {
		return err
	}
	if st.Uid != uint32(os.Geteuid()) || st.Mode&0o700 == 0o700 {
		return nil // checkDirectory decides
	}
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(dirfd), st.Mode&0o7777|0o700)
}

// checkDirectory refuses a directory in which a file cannot be kept safely.
func checkDirectory(fd int, check func(*unix.Statfs_t) error) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if err := checkOwner(&st); err != nil {
		return err
	}
	// Only a FUSE file system may fail to answer this.
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	return check(&fs)
}

// checkOwner refuses a file or directory of another user, or that others can write to.
func checkOwner(st *unix.Stat_t) error {
	if st.Uid != uint32(os.Geteuid()) {
		return fmt.Errorf("it is owned by user %d: %w", st.Uid, errNotOurs)
	}
	if st.Uid == OverflowUser && !AllUsersMapped() {
		return fmt.Errorf("its owner cannot be determined in this user namespace: %w", errNotOurs)
	}
	if st.Mode&0o022 != 0 {
		return fmt.Errorf("its mode is %#o: %w", st.Mode&0o7777, errNotOurs)
	}
	return nil
}

// OverflowUser is the UID by which the kernel reports every user that has no UID in a user
// namespace (user_namespaces(7)), both as the owner of a file and to a process that asks
// for its own.
const OverflowUser = 65534

// AllUsersMapped reports whether every user has a UID here, so that OverflowUser is a
// single user.
func AllUsersMapped() bool {
	return allUsersMapped(proc.Read("/proc/self/uid_map", 80))
}

// allUsersMapped compares a map of users word by word. (strings.Fields would bring tables of
// Unicode to every program.)
func allUsersMapped(users []byte) bool {
	rest := string(users)
	for _, word := range []string{"0", "0", "4294967295"} {
		for len(rest) > 0 && rest[0] == ' ' {
			rest = rest[1:]
		}
		var ok bool
		rest, ok = strings.CutPrefix(rest, word)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '\n' {
			return false
		}
	}
	return rest == "\n"
}
