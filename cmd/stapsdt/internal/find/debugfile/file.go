//go:build linux

package debugfile

import (
	"debug/elf"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/root"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/internal/elffile"
)

// File is an open file with debug information.
type File struct {
	// Path is the path at which the file was found, for messages.
	Path string
	// ELF are the headers.
	ELF *elf.File
	// Named means that the user has named the file, which stays open for other programs.
	Named bool

	io.ReaderAt
	file *os.File
	key  any // for package stall
	stat syscall.Stat_t
}

// Close closes the file.
func (f *File) Close() error {
	if f.Named {
		return nil
	}
	return stall.Close(f.key, f.file)
}

// opening is a request to open a file below the root of a process.
type opening struct {
	pid  int // or 0 for this process
	path string
	key  any
	// allows returns an error if the file must not be read.
	allows func(*syscall.Stat_t) error
}

// open opens a regular file, without an effect on anything else at the path.
func (o *opening) open() (*File, error) {
	opened, err := stall.Do(o.key, o.find, func(late *os.File) { late.Close() })
	if err != nil {
		return nil, err
	}
	f := &File{Path: o.path, file: opened, key: o.key}
	f.ReaderAt = stall.Reader{ReaderAt: opened, Key: o.key}
	f.stat, err = stall.Do(o.key, func() (st syscall.Stat_t, err error) {
		err = syscall.Fstat(int(opened.Fd()), &st)
		return st, err
	}, nil)
	if err == nil {
		f.ELF, err = elffile.New(f)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (o *opening) find() (*os.File, error) {
	from, err := root.Of(o.pid)
	if err != nil { // the process has ended, or belongs to another user
		return nil, fs.ErrNotExist
	}
	defer from.Close()
	found, err := from.Find(o.path, 0)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	info, err := found.Stat()
	if err != nil {
		return nil, err
	}
	if err := o.allows(info.Sys().(*syscall.Stat_t)); err != nil {
		return nil, err
	}
	return root.Reopen(found, o.path)
}

var (
	errOwner = errors.New("it belongs to another user")
	errFUSE  = errors.New("it is on a FUSE file system")
)

// beside returns an error for a file that must not be read for a program. A file of a third user
// could describe the program wrongly, and a FUSE file could stop this process.
func (p *Program) beside(pid int) func(*syscall.Stat_t) error {
	return func(st *syscall.Stat_t) error {
		if st.Uid != 0 && int(st.Uid) != os.Geteuid() && st.Uid != p.UID {
			return errOwner
		}
		if pid == 0 {
			pid = os.Getpid()
		}
		if proc.IsFUSE(pid, st.Dev) {
			return errFUSE
		}
		return nil
	}
}

// anyFile allows every file, for those that the user has named.
func anyFile(*syscall.Stat_t) error { return nil }
