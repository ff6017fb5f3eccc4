//go:build linux

// Package root opens files as a process sees them, which may be hostile.
package root

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"

	"golang.org/x/sys/unix"
)

// Root is the root directory of a process. Links below it are resolved as the process would resolve
// them, and never lead out of it.
type Root struct{ *os.File }

// Of opens the root directory of a process, or of this one if pid is 0.
func Of(pid int) (Root, error) {
	name := "/"
	if pid != 0 {
		name = fmt.Sprintf("/proc/%d/root/", proc.Task(pid))
	}
	f, err := os.OpenFile(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return Root{f}, err
}

// Find opens a file or directory below the root as a reference, which has no effect on a device or
// a pipe. Without openat2, as before Linux 5.6 and in some sandboxes, a path with a link is an
// error.
func (r Root) Find(name string, flags int) (*os.File, error) {
	flags |= unix.O_PATH | unix.O_CLOEXEC
	const inside = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS
	how := unix.OpenHow{Flags: uint64(flags), Resolve: inside}
	fd, err := unix.Openat2(int(r.Fd()), name, &how)
	if err == unix.ENOSYS || err == unix.EPERM {
		fd, err = r.walk(name, flags)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// walk opens a file or directory whose path has no links.
func (r Root) walk(name string, flags int) (fd int, err error) {
	parts := strings.Split(strings.Trim(path.Clean("/"+name), "/"), "/")
	at := int(r.Fd())
	for i, part := range parts {
		how := unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
		if i == len(parts)-1 {
			how = flags | unix.O_NOFOLLOW
		}
		if part == "" {
			part = "."
		}
		fd, err = unix.Openat(at, part, how, 0)
		if at != int(r.Fd()) {
			unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		at = fd
	}
	return fd, nil
}

// errIrregular means that a path leads to something else than a regular file.
var errIrregular = errors.New("it is not a regular file")

// Open opens a regular file below the root for reading.
func (r Root) Open(name string) (*os.File, error) {
	found, err := r.Find(name, 0)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	return Reopen(found, name)
}

// Reopen opens the regular file that a reference refers to.
func Reopen(found *os.File, name string) (*os.File, error) {
	switch info, err := found.Stat(); {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, &os.PathError{Op: "open", Path: name, Err: unix.EISDIR}
	case !info.Mode().IsRegular():
		return nil, &os.PathError{Op: "open", Path: name, Err: errIrregular}
	}
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", found.Fd()), flags, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return NewFile(fd, name), nil
}

// NewFile is os.NewFile for a descriptor that was opened with O_NONBLOCK, which it clears.
// Otherwise the runtime would ask the file system whether it can wait for the file. A FUSE server
// that does not answer would stop the whole command, because the runtime takes that system call for
// a short one, whose end the garbage collector waits for. os.Open asks, too.
func NewFile(fd int, name string) *os.File {
	_ = unix.SetNonblock(fd, false)
	return os.NewFile(uintptr(fd), name)
}

// Open opens the regular file at a path that is not below a root, such as one in /proc.
func Open(name string) (*os.File, error) {
	found, err := os.OpenFile(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	return Reopen(found, name)
}

// OpenDirectory opens a directory below the root for reading.
func (r Root) OpenDirectory(name string) (*os.File, error) {
	found, err := r.Find(name, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	fd, err := unix.Openat(int(found.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Directory describes a directory below the root, or the nearest one above it that this process can
// see, and reports whether it can be read.
func (r Root) Directory(name string) (info os.FileInfo, isReadable bool, err error) {
	for {
		found, err := r.Find(name, unix.O_DIRECTORY)
		if err != nil && name != "/" {
			name = path.Dir(name)
			continue
		}
		if err != nil {
			return nil, false, err
		}
		info, err = found.Stat()
		found.Close()
		if err != nil {
			return nil, false, err
		}
		dir, err := r.OpenDirectory(name)
		if err == nil {
			dir.Close()
		}
		return info, err == nil, nil
	}
}
