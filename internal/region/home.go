//go:build linux

// Package region is where images live: the files and memfds that hold their
// bytes, and the address ranges that they are mapped at. An address that was
// once a site can be called for as long as its Space is not freed.
package region

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Options says where an image is to be kept.
type Options struct {
	// Dir is the folder that is tried first, or "".
	Dir string
	// Memfd keeps the image in memory, where no file is tried.
	Memfd bool
}

// Home is where an image's bytes are: a file, or memory with a descriptor.
type Home struct {
	// Path is where a tracer finds the image.
	Path string

	fd     int    // what the image is mapped from, or -1
	memory *memfd // what fd is the descriptor of, or nil: a file
	folder int    // the file's folder, or -1
	name   string
	fresh  bool // the file was written by this process, now
}

// settle gives back what a loaded image does not need: all of a file's
// descriptors, and none of a memfd's, which is what its Path refers to.
func (h *Home) settle() {
	if h.folder >= 0 {
		unix.Close(h.folder)
		unix.Close(h.fd)
		h.folder, h.fd = -1, -1
	}
}

// Close gives back what is open. A file stays where it is, for other processes
// and for the next load.
func (h *Home) Close() {
	h.settle()
	if h.memory != nil {
		h.memory.close()
		h.memory, h.fd = nil, -1
	}
}

// discard closes a home that turned out to be of no use, and leaves no file that
// was not there before.
func (h *Home) discard() {
	if h.fresh {
		unix.Unlinkat(h.folder, h.name, 0)
	}
	h.Close()
}

// Errors of Load, which say at what it failed last.
var (
	ErrPlace = errors.New("no place for the image")
	ErrMap   = errors.New("the image cannot be mapped")
)

// Image is what Load needs to know of an image.
type Image struct {
	Bytes    []byte
	ID       [16]byte
	Provider string
	// Site is the kind of site, and Text and TextSize say where the sites
	// are in Bytes.
	Site           string
	Text, TextSize uint64
}

// Load keeps an image in the first place that can be written to and mapped
// from, and maps its sites in the space. It fails with ErrPlace or ErrMap, and
// the reason for each place.
func Load(space *Space, im *Image, opts Options) (*Home, Sites, error) {
	var reasons []error
	kind := ErrPlace
	try := func(h *Home, err error) (*Home, Sites, bool) {
		if err != nil {
			reasons = append(reasons, err)
			return nil, Sites{}, false
		}
		sites, err := space.Map(h.fd, im)
		if err != nil {
			kind = ErrMap
			reasons = append(reasons, &os.PathError{Op: "map", Path: h.Path, Err: err})
			h.discard()
			return nil, Sites{}, false
		}
		h.settle()
		return h, sites, true
	}
	if !opts.Memfd {
		name := fileName(im.Provider, im.ID)
		for _, path := range folders(opts.Dir) {
			if h, sites, ok := try(placeFile(path, name, im.Bytes)); ok {
				return h, sites, nil
			}
		}
	}
	if h, sites, ok := try(placeMemfd(im)); ok {
		return h, sites, nil
	}
	return nil, Sites{}, fmt.Errorf("%w: %w", kind, list(reasons))
}

// list is several errors on one line.
type list []error

func (l list) Error() string {
	var s strings.Builder
	for i, err := range l {
		if i > 0 {
			s.WriteString("; ")
		}
		s.WriteString(err.Error())
	}
	return s.String()
}

func (l list) Unwrap() []error { return l }
