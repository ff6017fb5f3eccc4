//go:build linux

package target

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/debugfile"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/lease"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/root"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/sdt"

	"golang.org/x/sys/unix"
)

// ID identifies a file while it is open.
type ID struct{ Device, Inode uint64 }

// File is an ELF file with probes. It stays open, so that its ID stays its own, and so that
// a tracer can attach to it even if it was deleted or was never in a file system that this
// process sees.
type File struct {
	// Path is for messages. It may be a path in another mount namespace.
	Path string
	// pid is a process that sees the path, or 0 for this process. uid owns the file, and debug
	// finds the file with its debug information.
	pid    int
	uid    uint32
	debug  *debugfile.Finder
	ID     ID
	Probes []sdt.Site
	// Problem is the error from reading notes or types, or nil if all could be read. The types of
	// a tracer's file are read by Deltas.
	Problem error
	// Moves is an error if a program copies the code of the file, with a tracer's breakpoints,
	// to memory that has no file. The kernel does not know the breakpoints there, so reaching
	// one ends the program. It is nil if no such program is known.
	Moves error
	// Running are processes that ran the file as their program when it was opened by name.
	Running []int

	segments []elf.ProgHeader // those that are loaded
	content  *Content
	near     *window // of content
	stamp    stamp   // the stamp when the probes were read
	overlaid bool
	birth    unix.StatxTimestamp // zero unless overlaid
	lease    *lease.Lease        // nil if nothing will be attached
	// the file has no path, as in memory, so that only its program can write to it
	nameless bool
	symbols  *symbols        // read when an operand names a symbol
	types    *types          // nil if all were read
	owner    *owner          // the user whose budget is charged, or nil
	cost     int64           // of everything that is released with the file
	kinds    map[string]bool // those of the file's own programs, by bpf.Probe.Key

	functions *functions  // nil if none were looked for or found
	asked     []spec.Spec // those whose functions were looked for

	// Lower is the file that an overlay has copied to this one, or nil. Processes can have mapped
	// either.
	Lower *File
}

// Version identifies a file and its content.
type Version struct{ stamp }

// Version returns the version of the file whose probes were read.
func (f *File) Version() Version { return Version{f.stamp} }

// stamp identifies a file and its content: if the stamp differs, the file was changed or replaced.
type stamp struct {
	ID
	size         int64
	mtime, ctime unix.Timespec
}

func newStamp(stat *unix.Stat_t) stamp {
	return stamp{ID{stat.Dev, stat.Ino}, stat.Size, stat.Mtim, stat.Ctim}
}

// Hold holds and returns the lease of the file. Until Let, a guarded file stays as it was when its
// probes were read. If the file is changed later, everything that the lease keeps is detached. The
// error is lease.ErrBroken if the file was changed already.
func (f *File) Hold() (*lease.Lease, error) {
	if f.Changed() {
		return nil, lease.ErrBroken
	}
	return f.lease, f.lease.Hold()
}

// Guarded reports whether the file cannot be changed while something is attached to it. Otherwise,
// Changed detects a change later. Guarded also reports true if nothing will be attached.
func (f *File) Guarded() bool { return f.lease == nil || f.lease.Held() || f.nameless }

// Changed reports whether the file is being changed, or has been. If so, everything is detached
// from it.
func (f *File) Changed() bool {
	if f.lease == nil || f.lease.Broken() {
		return f.lease != nil
	}
	if !f.Stalled() {
		if f.Guarded() && (!f.overlaid || f.birth != unix.StatxTimestamp{}) {
			return false
		}
		defer f.owner.charge(time.Now())
		if stat, err := f.content.stat(); err != nil || newStamp(&stat) == f.stamp {
			return false
		}
	}
	f.lease.Break()
	return true
}

// Copied reports whether an overlay has copied the file, as it does for any change, even of the
// mode. The content is the same, but processes that map the file from now on map the copy, to which
// nothing is attached.
func (f *File) Copied() bool {
	if !f.overlaid || f.birth == (unix.StatxTimestamp{}) {
		return false
	}
	defer f.owner.charge(time.Now())
	birth, err := f.content.birth()
	return err == nil && birth != f.birth
}

// AttachPath is a path of the file that is valid while it is open.
func (f *File) AttachPath() string { return fmt.Sprintf("/proc/self/fd/%d", f.content.file.Fd()) }

// Stalled reports whether the file system did not answer when the probes or their types were read.
func (f *File) Stalled() bool { return f.content != nil && f.content.stalled.Load() }

// Answers returns the key of the file system for package stall. The error is stall.Err if the file
// system does not answer.
func (f *File) Answers() (key any, err error) {
	// content's key is of the user for whom it was opened
	if _, err = f.content.stat(); err == stall.Err {
		f.content.stalled.Store(true)
	}
	return f.owner.stallKey(f.ID), err
}

// Again is a second descriptor of a file, for attaching to it. The lease is kept until Close, so
// that no process can change the file.
type Again struct {
	// Path is valid until Close.
	Path string
	file *os.File
	key  any
	end  func()
}

// Reopen returns another descriptor of the file. The error is lease.ErrBroken if the file is being
// changed.
func (f *File) Reopen() (*Again, error) {
	path, same, err := f.content.reopen()
	if err != nil {
		return nil, err
	}
	end, err := f.lease.Delay(same)
	if err != nil {
		same.Close()
		return nil, err
	}
	return &Again{path, same, f.owner.stallKey(f.ID), end}, nil
}

// Close closes the descriptor. A nil Again has none.
func (a *Again) Close() error {
	if a == nil {
		return nil
	}
	a.end()
	return stall.Close(a.key, a.file)
}

// Is reports whether info describes the file.
func (f *File) Is(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && f.ID == ID{stat.Dev, stat.Ino}
}

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(p []byte, off int64) (int, error) { return f.content.ReadAt(p, off) }

// Unreachable reports whether no process can map the file again: it no longer has a name, or its
// path leads to it neither here nor for process 1, as after the end of a container. If a process
// maps it nevertheless, it is found again.
func (f *File) Unreachable() bool {
	defer f.owner.charge(time.Now())
	stat, err := f.content.stat()
	if err != nil {
		return false
	}
	if stat.Nlink == 0 {
		return true
	}
	for _, root := range []string{"", "/proc/1/root"} {
		path := root + f.Path
		other, err := statPath(f.owner.stallKey(path), path)
		if err == stall.Err {
			return false
		}
		// The device differs on file systems that have no device of their own.
		if err == nil && other.Ino == stat.Ino &&
			(other.Dev == stat.Dev || unix.Major(other.Dev) == 0) {
			return false
		}
	}
	return true
}

// Close detaches everything from the file, and closes it.
func (f *File) Close() error {
	if f.lease != nil {
		f.lease.Break()
	}
	if f.functions != nil {
		f.functions.program.Close()
	}
	return f.content.Close()
}

// find opens a file, and returns the path that Locate returns.
func find(path string) (string, *Content, error) {
	path = Locate(path)
	content, err := openContent(path, func() (*os.File, error) { return open(path) })
	if err == stall.Err {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return path, content, err
}

// Locate returns the path at which Open finds a file: a name without a slash is looked up in $PATH
// if there is no such file in the current directory.
func Locate(path string) string {
	if strings.Contains(path, "/") {
		return path
	}
	if _, err := stall.Stat(path); err == nil {
		return path
	}
	if found, err := exec.LookPath(path); err == nil {
		return found
	}
	return path
}

// leasedError means that another process has a write lease on a file, which an open for reading
// would wait for. No other process can have the file open meanwhile, and so none can run it.
type leasedError struct {
	ID
	path string
}

func (e *leasedError) Error() string {
	return e.path + ": another process has a write lease on the file"
}

// open opens a regular file, unless another process has a write lease on it.
func open(path string) (*os.File, error) {
	found, err := os.OpenFile(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	f, err := root.Reopen(found, path)
	var stat unix.Stat_t
	if errors.Is(err, unix.EWOULDBLOCK) && unix.Fstat(int(found.Fd()), &stat) == nil {
		return nil, &leasedError{ID{stat.Dev, stat.Ino}, path}
	}
	return f, err
}

// guard keeps the file from being changed from now on, if that is possible. The error is
// lease.ErrWritten if another process may be writing it. No lease is taken on a foreign file,
// because it would not hold back writers elsewhere.
func (f *File) guard(leases *lease.Leases) (err error) {
	foreign, overlaid, err := f.content.system()
	if f.overlaid = overlaid; overlaid {
		f.birth, err = f.content.birth()
	}
	if errors.Is(err, stall.Err) {
		return err
	}
	if foreign {
		f.lease = leases.Without(f.content.file)
		return nil
	}
	type taken struct {
		*lease.Lease
		err error
	}
	l, err := stall.Do(f.content.key, func() (taken, error) {
		l, err := leases.Take(f.content.file)
		return taken{l, err}, nil
	}, func(late taken) { late.Release() })
	if err != nil {
		return err
	}
	f.lease, err = l.Lease, l.err
	stat, statErr := f.content.stat()
	if statErr != nil {
		f.lease.Release()
		return statErr
	}
	f.nameless = stat.Nlink == 0
	if f.nameless || !errors.Is(err, lease.ErrWritten) {
		return nil
	}
	return err
}

// identify sets the ID and the stamp of the file. It fails if the file is not ELF, so that most
// files without probes are read no further.
func (f *File) identify() error {
	stat, err := f.content.stat()
	if err != nil {
		return err
	}
	f.stamp, f.ID, f.uid = newStamp(&stat), ID{stat.Dev, stat.Ino}, stat.Uid
	var magic [len(elf.ELFMAG)]byte
	if _, err := f.content.ReadAt(magic[:], 0); err != nil && err != io.EOF {
		return err
	}
	if string(magic[:]) != elf.ELFMAG {
		return errors.New("not an ELF file")
	}
	return nil
}

// once removes sites that have the same probe and offset as an earlier one. A linker leaves such
// sites when it merges identical functions (--icf), and a fire there is one event.
func once(sites []sdt.Site) []sdt.Site {
	type place struct {
		provider, name string
		offset         uint64
	}
	has := make(map[place]bool, len(sites))
	return slices.DeleteFunc(sites, func(s sdt.Site) bool {
		at := place{s.Provider, s.Name, s.Offset}
		again := has[at]
		has[at] = true
		return again
	})
}

// read reads the probes, without their types, and the functions that the finder looks for. The
// error wraps sdt.ErrNoProbes if there are none.
func (f *File) read(finder *Finder) error {
	if err := f.identify(); err != nil {
		return err
	}
	f.Probes, f.Problem = sdt.Read(f.content)
	f.Probes = once(f.Probes)
	preferFastNops(f.content, f.Probes)
	f.readFunctions(finder)
	if f.Stalled() {
		return stall.Err
	}
	if len(f.Probes) == 0 {
		return f.Problem
	}
	f.readSegments()
	f.types = &types{}
	return nil
}
