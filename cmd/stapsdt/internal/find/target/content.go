//go:build linux

package target

import (
	"cmp"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/internal/region"

	"golang.org/x/sys/unix"
)

// Content is an open file whose file system may not answer (see package stall).
type Content struct {
	file *os.File
	// key is for package stall.
	key any
	// stalled is set when the file system did not answer, so that conclusions from the rest are
	// wrong.
	stalled atomic.Bool
}

// openContent calls open, which opens a file. The key is for package stall.
func openContent(key any, open func() (*os.File, error)) (*Content, error) {
	file, err := stall.Do(key, open, func(late *os.File) { late.Close() })
	if err != nil {
		return nil, err
	}
	return &Content{file: file, key: key}, nil
}

// ReadAt implements io.ReaderAt.
func (c *Content) ReadAt(p []byte, off int64) (n int, err error) {
	n, err = stall.Reader{ReaderAt: c.file, Key: c.key}.ReadAt(p, off)
	if err == stall.Err {
		c.stalled.Store(true)
	}
	return n, err
}

func (c *Content) stat() (unix.Stat_t, error) {
	return stall.Do(c.key, func() (stat unix.Stat_t, err error) {
		err = unix.Fstat(int(c.file.Fd()), &stat)
		return stat, err
	}, nil)
}

// statPath returns the state of a file by its path. The key is for package stall.
func statPath(key any, path string) (unix.Stat_t, error) {
	return stall.Do(key, func() (stat unix.Stat_t, err error) {
		err = unix.Stat(path, &stat)
		return stat, err
	}, nil)
}

// system reports whether the file is foreign, so that the server of a FUSE or network file system
// can change it, for itself or for other machines, without this kernel. It also reports whether the
// file is on an overlay.
func (c *Content) system() (foreign, overlaid bool, err error) {
	fs, err := stall.Do(c.key, func() (fs unix.Statfs_t, err error) {
		err = unix.Fstatfs(int(c.file.Fd()), &fs)
		return fs, err
	}, nil)
	if err == stall.Err {
		return false, false, err
	}
	// a server can refuse to answer
	return err != nil || region.IsNetwork(&fs), fs.Type == unix.OVERLAYFS_SUPER_MAGIC, nil
}

// birth returns the creation time of the file that an overlay shows, or zero if it is unknown. The
// time differs as soon as the overlay has copied the file.
func (c *Content) birth() (unix.StatxTimestamp, error) {
	return stall.Do(c.key, func() (unix.StatxTimestamp, error) {
		var stat unix.Statx_t
		err := unix.Statx(int(c.file.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &stat)
		return stat.Btime, err
	}, nil)
}

// reopen returns another descriptor of the file, and its path, which is valid until the descriptor
// is closed.
func (c *Content) reopen() (path string, same *os.File, err error) {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return "", nil, err
	}
	var fd int
	var dupErr error
	// the file may be closed meanwhile
	err = raw.Control(
		func(own uintptr) { fd, dupErr = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) },
	)
	if err = cmp.Or(err, os.NewSyscallError("fcntl", dupErr)); err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), os.NewFile(uintptr(fd), c.file.Name()), nil
}

// Close closes the file. Some file systems have to answer that request too.
func (c *Content) Close() error { return stall.Close(c.key, c.file) }
