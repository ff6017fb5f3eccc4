//go:build linux

package target

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"github.com/go-stapsdt/stapsdt/sdt"
	"golang.org/x/sys/unix"
)

// ID identifies a file while it is open.
type ID struct{ Device, Inode uint64 }

// File is an ELF file with probes. It stays open, so that its ID stays its own, and so that
// a tracer can attach to it even if it was deleted or was never in a file system that this
// process sees.
type File struct {
	// Path is for people. It may be a path in another mount namespace.
	Path   string
	ID     ID
	Probes []sdt.Probe
	// Problem says which notes or types could not be read, and is nil if all could.
	Problem error

	file    *os.File
	symbols *symbols // read when an operand names one
}

// AttachPath is a path of the file that is valid while it is open.
func (f *File) AttachPath() string { return fmt.Sprintf("/proc/self/fd/%d", f.file.Fd()) }

// ReadAt reads the file.
func (f *File) ReadAt(p []byte, off int64) (int, error) { return f.file.ReadAt(p, off) }

// Unreachable reports whether no process can map the file again: it has no name any more, or
// its name leads to it neither here nor for the first process, as after the end of a container.
// A process that maps it nevertheless makes it be found again.
func (f *File) Unreachable() bool {
	var stat, other unix.Stat_t
	if unix.Fstat(int(f.file.Fd()), &stat) != nil {
		return false
	}
	if stat.Nlink == 0 {
		return true
	}
	for _, root := range []string{"", "/proc/1/root"} {
		err := unix.Stat(root+f.Path, &other)
		// The device differs on file systems that have no device of their own.
		if err == nil && other.Ino == stat.Ino && (other.Dev == stat.Dev || unix.Major(other.Dev) == 0) {
			return false
		}
	}
	return true
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }

// Open opens a file with probes, for which a name without a slash is looked for in $PATH if
// there is no such file in the current directory. The error wraps sdt.ErrNoProbes if it has
// none.
func Open(path string) (*File, error) {
	file, err := open(path)
	if errors.Is(err, fs.ErrNotExist) && !strings.Contains(path, "/") {
		if found, lookErr := exec.LookPath(path); lookErr == nil {
			path = found
			file, err = open(path)
		}
	}
	if err != nil {
		return nil, err
	}
	return read(path, file)
}

// open opens a regular file. Opening anything else could have effects, so it looks first.
func open(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	file, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.Unwrap(err)}
	}
	return file, nil
}

// read reads the probes of a file, which it closes if there are none.
func read(path string, file *os.File) (*File, error) {
	f := &File{Path: path, file: file}
	err := f.read()
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

func (f *File) read() error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.file.Fd()), &stat); err != nil {
		return err
	}
	f.ID = ID{stat.Dev, stat.Ino}
	// Most files have no probes, and this is all that is read of them.
	var magic [4]byte
	if _, err := f.file.ReadAt(magic[:], 0); err != nil && err != io.EOF {
		return err
	}
	if string(magic[:]) != elf.ELFMAG {
		return errors.New("not an ELF file")
	}
	f.Probes, f.Problem = sdt.Read(f.file)
	if len(f.Probes) == 0 {
		return f.Problem
	}
	f.Problem = errors.Join(f.Problem, sdt.ReadTypes(f.file, f.Probes))
	preferFastNops(f.file, f.Probes)
	return nil
}
