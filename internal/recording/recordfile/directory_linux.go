package recordfile

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/descriptor"
	"github.com/go-stapsdt/stapsdt/internal/region"

	"golang.org/x/sys/unix"
)

// directory is the directory of a recording. Files in it are reached by its descriptor, so that the
// directory that was checked is the one that is used, wherever its path leads by then. Methods that
// take the path of a file use its last element.
type directory struct{ *os.File }

// openDirectory opens a directory in which no other user can replace a file. It follows the path
// one element at a time, and refuses a path that another user could redirect: each directory that
// leads to it, and each link, must belong to this user or to root. On the way, a directory of root
// may be writable for a group that root has chosen, as /var/log is.
//
// Everyone may write to a directory on the way, as in a volume of Kubernetes. Its users can rename
// what is in it, so the next directory can be another one at any time, but it cannot be theirs.
// RATIONALE.md discusses that.
//
// If makes is true, the last directory is made for this user alone if it is missing, unless it
// would be on a network or FUSE file system.
func openDirectory(name string, makes bool) (*directory, error) {
	if err := region.StartPoller(); err != nil {
		return nil, err
	}
	whole := name
	if !filepath.IsAbs(name) {
		at, err := unix.Getwd()
		if err != nil {
			return nil, os.NewSyscallError("getcwd", err)
		}
		whole = at + "/" + name // not joined: the element before .. can be a link
	}
	w := &way{fd: -1, rest: strings.Split(whole, "/"), makes: makes}
	if err := w.restart(); err != nil {
		return nil, err
	}
	defer func() { unix.Close(w.fd) }()
	for len(w.rest) > 0 {
		if err := w.step(); err != nil {
			return nil, err
		}
	}
	if err := checkLocal(w.fd, name); err != nil {
		return nil, err // before its server could let us wait
	}
	fd, err := descriptor.Open(w.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == unix.EACCES { // its user may make files there, but not list them
		fd, err = descriptor.Open(w.fd, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	d := &directory{os.NewFile(uintptr(fd), name)}
	var st unix.Stat_t
	if err = os.NewSyscallError("fstat", unix.Fstat(fd, &st)); err == nil {
		err = checkOwner(name, &st)
	}
	if err == nil && isOpen(&st) {
		err = errOpen(name)
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// directoryOf returns the directory of a path. It keeps each .. in it, because the element before
// one can be a link.
func directoryOf(path string) string {
	directory, _ := filepath.Split(path)
	if directory == "" {
		return "."
	}
	return cmp.Or(strings.TrimRight(directory, "/"), "/")
}

// way is a part of a path that was followed.
type way struct {
	fd    int      // the last directory
	at    string   // its path, without links
	open  string   // the last directory before it to which other users may write, or ""
	rest  []string // the elements that are left
	links int      // the number of links that were followed
	makes bool     // whether the last directory is made if it is missing
}

// maxLinks is the maximum number of links that the kernel follows.
const maxLinks = 40

// restart returns to the root.
func (w *way) restart() error {
	fd, err := descriptor.Openat(unix.AT_FDCWD, "/", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: "/", Err: err}
	}
	w.enter(fd, "/")
	w.open = ""
	return nil
}

// enter makes an open directory the last one.
func (w *way) enter(fd int, at string) {
	if w.fd >= 0 {
		unix.Close(w.fd)
	}
	w.fd, w.at = fd, at
}

// step follows the next element.
func (w *way) step() error {
	name := w.rest[0]
	w.rest = w.rest[1:]
	switch {
	case !isElement(name):
		return nil
	case name == "..": // the path without links leads to the parent
		w.rest = append(strings.Split(filepath.Dir(w.at), "/"), w.rest...)
		return w.restart()
	}
	next := filepath.Join(w.at, name)
	fd, err := w.openNext(name, next)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err = os.NewSyscallError("fstat", unix.Fstat(fd, &st)); err == nil {
		if st.Uid == region.OverflowUser && !region.AllUsersMapped() {
			st.Uid = 0 // unknown; the root of a sandbox often belongs to such a user
		}
		err = checkOwner(next, &st)
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		unix.Close(fd)
		return w.follow(name)
	}
	if st.Uid == 0 {
		st.Mode &^= 0o020
	}
	if isOpen(&st) {
		w.open = next
	}
	w.enter(fd, next)
	return nil
}

// openNext opens an element, whose path is next, without following it.
func (w *way) openNext(name, next string) (int, error) {
	// With O_DIRECTORY, the kernel mounts what is mounted on demand.
	fd, err := descriptor.Openat(w.fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
	if err == unix.ENOENT && w.makes && !slices.ContainsFunc(w.rest, isElement) {
		return w.makeNext(name, next)
	}
	if err == unix.ENOTDIR {
		fd, err = descriptor.Openat(w.fd, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: next, Err: err}
	}
	return fd, nil
}

// isElement reports whether a part of a path leads further.
func isElement(name string) bool { return name != "" && name != "." }

// makeNext makes an element for this user alone, and opens it.
func (w *way) makeNext(name, next string) (int, error) {
	if err := checkLocal(w.fd, next); err != nil {
		return -1, err
	}
	fd, err := region.MakeDirectoryAt(w.fd, name)
	if err != nil {
		return -1, &os.PathError{Op: "mkdir", Path: next, Err: err}
	}
	return fd, nil
}

// follow follows a link in the last directory. Where other users may write to a directory, they can
// move a link of root to any name.
func (w *way) follow(name string) error {
	next := filepath.Join(w.at, name)
	if w.open != "" {
		return fmt.Errorf("%s: other users may write to %s, and could replace this link: name the directory to which it leads", next, w.open)
	}
	if w.links++; w.links > maxLinks {
		return &os.PathError{Op: "open", Path: next, Err: unix.ELOOP}
	}
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(w.fd, name, b)
	if err != nil {
		return &os.PathError{Op: "readlink", Path: next, Err: err}
	}
	target := string(b[:n])
	w.rest = append(strings.Split(target, "/"), w.rest...)
	if filepath.IsAbs(target) {
		return w.restart()
	}
	return nil
}

// checkOwner refuses a directory in which, or a link with which, its owner could replace a
// recording.
func checkOwner(name string, st *unix.Stat_t) error {
	if st.Uid != 0 && st.Uid != uint32(os.Geteuid()) {
		return fmt.Errorf("%s: it belongs to user %d, who could replace a recording", name, st.Uid)
	}
	return nil
}

// isOpen reports whether other users may rename and remove the files in a directory.
func isOpen(st *unix.Stat_t) bool { return st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0 }

// errOpen is the error for a directory in which other users may replace files.
func errOpen(name string) error {
	return fmt.Errorf("%s: other users may write to it, and could replace a recording: chmod go-w keeps them out; or record to a directory of its own in it, such as %s",
		name, filepath.Join(name, "rec"))
}

// openFile opens a file of the directory. The name of the file is its path.
func (d *directory) openFile(path string, flags int, mode uint32) (*os.File, error) {
	fd, err := descriptor.Open(d.fd(), filepath.Base(path), flags|unix.O_NOFOLLOW, mode)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

func (d *directory) fd() int { return int(d.Fd()) }

// lstat describes a file of the directory, or a link.
func (d *directory) lstat(path string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	name := path[strings.LastIndexByte(path, '/')+1:]
	if name == ".." || !isElement(name) {
		return nil, errOther
	}
	if err := unix.Fstatat(d.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return &st, nil
}

// isSame reports whether a description is of an open file.
func isSame(f *os.File, st *unix.Stat_t) bool {
	var own unix.Stat_t
	return unix.Fstat(int(f.Fd()), &own) == nil && own.Dev == st.Dev && own.Ino == st.Ino
}

// rename renames a file of the directory to a name that no other file has.
func (d *directory) rename(from, to string) error {
	old, name, fd := filepath.Base(from), filepath.Base(to), d.fd()
	err := unix.Renameat2(fd, old, fd, name, unix.RENAME_NOREPLACE)
	if err == unix.EINVAL || err == unix.ENOSYS { // the flag is not supported
		if err = unix.Linkat(fd, old, fd, name, 0); err == nil {
			return d.unlink(from)
		}
	}
	if err == nil {
		return nil
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
}

// unlink removes a file of the directory.
func (d *directory) unlink(path string) error {
	if err := unix.Unlinkat(d.fd(), filepath.Base(path), 0); err != nil {
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}

// names returns the names of the files in the directory.
func (d *directory) names() []string { return descriptor.Names(d.fd()) }
