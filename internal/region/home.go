//go:build linux

// Package region keeps images: it manages the files and memfds that hold their bytes, and
// the address ranges at which they are mapped. An address that was once a site can be called
// until its Space is freed.
package region

import (
	"os"
	"strconv"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/descriptor"
	"github.com/go-stapsdt/stapsdt/internal/image"

	"golang.org/x/sys/unix"
)

// Options determines where an image is kept. The zero Options leaves the choice to the
// environment.
type Options struct {
	// Dir is the directory in which the image must be kept, or "".
	Dir string
	// Memfd keeps the image in memory, without trying any file.
	Memfd bool
}

// Home holds an image's bytes: a file, or memory that has a descriptor.
type Home struct {
	path    string // path of a file
	process string // directory in /proc, for memory: see process
	mapping string // link of the mapping, for memory once it is mapped: see Path

	file   descriptor.Inode
	fd     int    // the descriptor that the image is mapped from, or -1
	memory *memfd // the memory that fd is the descriptor of, or nil for a file
	dirfd  int    // the file's directory, or -1
}

// Path returns the path at which a tracer finds the image, or "". A tracer finds memory through its
// descriptor. If the program has put another file under the descriptor's number (a daemon's
// dup2), Path returns the link of the mapping, which root can follow.
func (h *Home) Path() string {
	switch {
	case h.memory == nil:
		return h.path
	case h.process == "":
		return ""
	case h.memory.there():
		return h.process + "/fd/" + strconv.Itoa(h.memory.fd)
	case h.mapping == "":
		return ""
	}
	return h.process + "/map_files/" + h.mapping
}

// File identifies the file of the image. memfd is its descriptor if the image is in
// memory, and -1 otherwise.
func (h *Home) File() (dev, ino uint64, memfd int) {
	memfd = -1
	if h.memory != nil {
		memfd = h.fd
	}
	return h.file.Dev, h.file.Ino, memfd
}

// settle closes the descriptors that a loaded image does not need: all descriptors of a file,
// but not the descriptor of a memfd, because its Path refers to it.
func (h *Home) settle() {
	if h.dirfd >= 0 {
		unix.Close(h.dirfd)
		unix.Close(h.fd)
		h.dirfd, h.fd = -1, -1
	}
}

// Close closes all descriptors. A file stays where it is, for other processes and for the
// next load.
func (h *Home) Close() {
	h.settle()
	if h.memory != nil {
		h.memory.close()
		h.memory, h.fd = nil, -1
	}
}

// Error has the reason for each place that Load has tried, in one line.
type Error struct {
	Reasons []error
	// Written reports whether the image was written to a place, but could not be mapped from
	// there.
	Written bool
}

func (e *Error) Error() string {
	var s strings.Builder
	for i, err := range e.Reasons {
		if i > 0 {
			s.WriteString("; ")
		}
		s.WriteString(err.Error())
	}
	return s.String()
}

// Unwrap returns the reasons.
func (e *Error) Unwrap() []error { return e.Reasons }

// Load keeps an image in the first place where it can be written and mapped, and maps its
// sites in the space. It fails with an *Error.
func Load(space *Space, im *image.Image, opts Options) (*Home, Sites, error) {
	failure := new(Error)
	for _, p := range places(opts) {
		home, err := p.store(im)
		if err == nil {
			var sites Sites
			if sites, err = home.mapped(space, im); err == nil {
				debugLoaded(im, home)
				return home, sites, nil
			}
			failure.Written = true
			err = &os.PathError{Op: "map", Path: home.Path(), Err: err}
			// A file stays, because another process may have mapped it by now.
			home.Close()
		}
		err = p.because(err)
		debugSkipped(im, err)
		failure.Reasons = append(failure.Reasons, err)
	}
	return nil, Sites{}, failure
}

// mapped maps the image's sites in the space, and closes the descriptors that are then no
// longer needed.
func (h *Home) mapped(space *Space, im *image.Image) (Sites, error) {
	var err error
	if h.file, err = descriptor.InodeOf(h.fd); err != nil {
		return Sites{}, err
	}
	sites, err := space.Map(h.fd, im)
	if err != nil {
		return Sites{}, err
	}
	h.mapping = space.live.mapping.name()
	h.settle()
	return sites, nil
}
