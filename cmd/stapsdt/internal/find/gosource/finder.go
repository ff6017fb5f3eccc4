//go:build linux

package gosource

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/root"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"

	"golang.org/x/sys/unix"
)

const (
	// maxSize is the maximum size of a source file, and maxRead that of all that a Finder reads.
	maxSize = 8 << 20
	maxRead = 64 << 20
	// maxParts is the maximum number of parts of a path.
	maxParts = 64
)

// Finder finds source files. It must be used by one goroutine only.
type Finder struct {
	// Directories are those that the user has named. What is below them is trusted to be the source
	// of the program.
	Directories []string
	// Limited means that programs must not lead to files: only those below Directories, and those
	// of modules and of Go's distribution are used.
	Limited bool

	known map[wanted]*result
	read  int64 // bytes
}

// wanted is a file of a program.
type wanted struct {
	Program
	name string
}

// result is the result of finding a file.
type result struct {
	file *File
	err  error
}

// Program is what is known of a program whose source is wanted.
type Program struct {
	// Version is the version of Go that has built it.
	Version string
	// Built is the time at which its file was written.
	Built time.Time
}

// place is a path at which a source file can be.
type place struct {
	path string
	// before is the time at which it must have been written at the latest, or 0.
	before int64
	// distribution is the directory of the Go distribution that has it, and version its version.
	distribution, version string
}

// errNone means that a source file was not found.
var errNone = errors.New("its source was not found: --source DIR names a directory that has it")

// Find returns the source of a program's file, by the path that its DWARF has.
func (f *Finder) Find(p Program, name string) (*File, error) {
	key := wanted{p, name}
	r := f.known[key]
	if r == nil {
		r = &result{}
		if r.file, r.err = f.find(&p, name); f.known == nil {
			f.known = map[wanted]*result{}
		}
		f.known[key] = r
	}
	return r.file, r.err
}

func (f *Finder) find(p *Program, name string) (*File, error) {
	for _, at := range f.places(p, name) {
		file, err := f.open(at)
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			return file, err
		}
	}
	return nil, errNone
}

// places returns the places where a source file can be.
func (f *Finder) places(p *Program, name string) (all []place) {
	if strings.Count(name, "/") > maxParts {
		return nil
	}
	name = path.Clean(name)
	for _, dir := range f.Directories {
		rest, more := strings.TrimPrefix(name, "/"), true
		for ; more; _, rest, more = strings.Cut(rest, "/") {
			all = append(all, place{path: filepath.Join(dir, rest)})
		}
	}
	_, inModules, isCached := strings.Cut(name, "/pkg/mod/")
	switch isAbsolute := path.IsAbs(name); {
	case isCached && isAbsolute:
		all = append(all, place{path: filepath.Join(modules(), inModules)})
	case !isAbsolute && strings.Contains(name, "@"):
		all = append(all, place{path: filepath.Join(modules(), escaped(name))})
	case !isAbsolute:
		for _, dir := range distributions(p.Version) {
			all = append(all, place{
				path: filepath.Join(dir, "src", name), distribution: dir, version: p.Version,
			})
		}
	}
	if path.IsAbs(name) && !f.Limited {
		all = append(all, place{path: name, before: p.Built.UnixNano()})
	}
	return all
}

// modules returns the module cache of this process.
func modules() string {
	if dir := os.Getenv("GOMODCACHE"); dir != "" {
		return dir
	}
	home, _ := os.UserHomeDir()
	gopath := cmp.Or(os.Getenv("GOPATH"), filepath.Join(home, "go"))
	return filepath.Join(filepath.SplitList(gopath)[0], "pkg", "mod")
}

// escaped returns a path as the module cache has it: an upper-case letter becomes a lower-case one
// after an exclamation mark.
func escaped(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('!')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// distributions returns the directories in which a version of Go can be.
func distributions(version string) []string {
	all := []string{"/usr/local/go", "/usr/lib/go"}
	if dir := os.Getenv("GOROOT"); dir != "" {
		all = append([]string{dir}, all...)
	}
	toolchains, _ := filepath.Glob(filepath.Join(modules(), "golang.org", "toolchain@v0.0.1-"+version+".*"))
	return append(all, toolchains...)
}

// open reads the source file at a place.
func (f *Finder) open(at place) (*File, error) {
	if at.distribution != "" {
		b, _, err := f.content(filepath.Join(at.distribution, "VERSION"))
		if first, _, _ := strings.Cut(string(b), "\n"); err != nil || first != at.version {
			return nil, fs.ErrNotExist
		}
	}
	b, written, err := f.content(at.path)
	switch {
	case err != nil:
		return nil, err
	case at.before != 0 && written.UnixNano() > at.before:
		return nil, fmt.Errorf("its source, %s, was written after the program: if it is right, name its directory with --source", at.path)
	}
	file, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s is not Go", at.path) // and nothing of it is shown
	}
	return file, nil
}

// content reads a regular file.
func (f *Finder) content(name string) (b []byte, written time.Time, err error) {
	type content struct {
		b       []byte
		written time.Time
	}
	left := min(maxSize, maxRead-f.read)
	c, err := stall.Do(name, func() (c content, err error) {
		file, err := root.Open(name)
		if err != nil {
			return c, err
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return c, err
		}
		c.written = info.ModTime()
		c.b, err = io.ReadAll(io.LimitReader(file, left+1))
		return c, err
	}, nil)
	if err == nil && int64(len(c.b)) > left {
		return nil, c.written, fmt.Errorf("%s is larger than may be read", name)
	}
	f.read += int64(len(c.b))
	return c.b, c.written, err
}
