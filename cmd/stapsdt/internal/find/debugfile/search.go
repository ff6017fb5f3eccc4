//go:build linux

package debugfile

import (
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"

	"golang.org/x/sys/unix"
)

// Program is a program or library whose debug information is wanted.
type Program struct {
	*elf.File
	// Path is its path as the process PID sees it, or as this process does if PID is 0.
	Path string
	PID  int
	// UID is the user who owns its file.
	UID uint32
}

// Finder finds debug files. It may be used by several goroutines.
type Finder struct {
	// Directory is the directory for the debug files of a system, below each root directory.
	Directory string

	named []*File

	mu sync.Mutex
	// belongs are the named files that belong to a program.
	belongs map[*File]bool
	sums    checksums
}

// New returns a Finder that knows the usual places.
func New() *Finder {
	return &Finder{Directory: "/usr/lib/debug", belongs: map[*File]bool{}, sums: checksums{limit: maxSummed}}
}

// Limit limits the work for each user of the machine. It is for processes that the command does not
// name.
func (f *Finder) Limit() {
	f.sums.mu.Lock()
	defer f.sums.mu.Unlock()
	f.sums.limit = maxLimited
}

// Named returns a Finder that also knows files that the user has named. Each is used for the
// programs to which it belongs.
func Named(names []string) (*Finder, error) {
	f := New()
	for _, name := range names {
		if err := f.name(name); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

func (f *Finder) name(name string) error {
	absolute, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	o := opening{path: absolute, key: absolute, allows: anyFile}
	file, err := o.open()
	switch {
	case errors.Is(err, unix.ELOOP):
		return fmt.Errorf("--debug-file %s: a link in /proc is not followed, nor is a loop of links: give the path that readlink -f %[1]s prints", name)
	case err != nil:
		return fmt.Errorf("--debug-file %s: %w", name, withoutPath(err))
	}
	if !DWARF.In(file.ELF) && !Symbols.In(file.ELF) {
		file.Close()
		return fmt.Errorf("--debug-file %s has neither DWARF nor symbols", name)
	}
	file.Path, file.Named = name, true
	f.named = append(f.named, file)
	return nil
}

// withoutPath returns the cause of an error that names a path.
func withoutPath(err error) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		return at.Err
	}
	return err
}

// Close closes the files that the user has named.
func (f *Finder) Close() {
	for _, file := range f.named {
		file.Named = false
		_ = file.Close()
	}
	f.named = nil
}

// Note records which of the named files belong to a program.
func (f *Finder) Note(p *Program) {
	is := identityOf(p.File)
	for _, file := range f.named {
		if f.check(p, &is, file) == nil {
			f.mu.Lock()
			f.belongs[file] = true
			f.mu.Unlock()
		}
	}
}

// Stray returns an error if a file that the user has named belongs to none of the programs that
// Note was called with.
func (f *Finder) Stray() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, file := range f.named {
		if f.belongs[file] {
			continue
		}
		const unlike = "--debug-file %s belongs to no program or library there: none has"
		if id := BuildID(file.ELF); id != nil {
			return fmt.Errorf(unlike+" its build ID, %x, or its checksum in .gnu_debuglink", file.Path, id)
		}
		return fmt.Errorf(unlike+" its checksum in .gnu_debuglink", file.Path)
	}
	return nil
}

// Find returns the first file that belongs to a program and has a content. Otherwise the error
// tells where there is none, or which file does not belong to the program. The caller closes the
// file.
func (f *Finder) Find(p *Program, wanted Content) (*File, error) {
	is := identityOf(p.File)
	var unfit error
	for _, file := range f.named {
		err := f.fits(p, &is, file, wanted)
		if err == nil {
			return file, nil
		}
		if unfit == nil {
			unfit = fmt.Errorf("%s %w", file.Path, err)
		}
	}
	for _, o := range f.places(p, &is) {
		file, err := o.open()
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			continue
		}
		if err == nil {
			if err = f.fits(p, &is, file, wanted); err == nil {
				return file, nil
			}
			_ = file.Close()
			err = fmt.Errorf("%s %w", o.path, err)
		} else {
			err = fmt.Errorf("%s is not used: %w", o.path, withoutPath(err))
		}
		if unfit == nil {
			unfit = err
		}
	}
	if unfit != nil {
		return nil, unfit
	}
	return nil, f.none(p, &is)
}

// fits returns nil if a file belongs to a program and has a content.
func (f *Finder) fits(p *Program, is *identity, file *File, wanted Content) error {
	if err := f.check(p, is, file); err != nil {
		return err
	}
	return wanted.lacks(file.ELF)
}

func (f *Finder) check(p *Program, is *identity, file *File) error {
	sum := func() (uint32, error) { return f.sums.of(p, file) }
	return is.check(p.File, file.ELF, sum)
}

// places returns the places for the debug file of a program, below the root of its process and
// below that of this process.
func (f *Finder) places(p *Program, is *identity) (all []opening) {
	add := func(pid int, parts ...string) {
		place := path.Join(parts...)
		if place == p.path() {
			return
		}
		var key any = place
		if p.PID != 0 {
			key = stall.Of{Owner: proc.OwnerOf(p.PID), System: place}
		}
		all = append(all, opening{pid: pid, path: place, key: key, allows: p.beside(pid)})
	}
	roots := []int{0}
	if p.PID != 0 {
		roots = []int{p.PID, 0}
	}
	for _, pid := range roots {
		if name := is.buildIDName(); name != "" {
			add(pid, f.Directory, ".build-id", name)
		}
	}
	for _, pid := range roots {
		if is.link != nil && path.IsAbs(p.path()) {
			directory := path.Dir(p.path())
			add(pid, directory, is.link.name)
			add(pid, directory, ".debug", is.link.name)
			add(pid, f.Directory, directory, is.link.name)
		}
	}
	return all
}

// path returns the path that the file has or had.
func (p *Program) path() string { return strings.TrimSuffix(p.Path, proc.Deleted) }

// buildIDName returns the name of a debug file in the directory for build IDs, or "".
func (i *identity) buildIDName() string {
	text := hex.EncodeToString(i.id)
	if len(text) < 3 {
		return ""
	}
	return text[:2] + "/" + text[2:] + ".debug"
}

// none returns the error for a program without a debug file.
func (f *Finder) none(p *Program, is *identity) error {
	byID, byLink := "", ""
	if name := is.buildIDName(); name != "" {
		byID = path.Join(f.Directory, ".build-id", name)
	}
	if is.link != nil {
		byLink = fmt.Sprintf("%s beside it, in .debug, or in %s",
			is.link.name, path.Join(f.Directory, path.Dir(p.path())))
	}
	switch {
	case byID == "" && byLink == "":
		return errors.New("it has neither a build ID nor a .gnu_debuglink to find its debug file by")
	case byLink == "":
		return fmt.Errorf("there is no %s", byID)
	case byID == "":
		return fmt.Errorf("there is no %s", byLink)
	}
	return fmt.Errorf("there is no %s, and no %s", byID, byLink)
}
