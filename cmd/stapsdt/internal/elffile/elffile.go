// Package elffile opens untrusted ELF files with debug/elf, within limits. debug/elf allocates and reads
// as much as a file's headers claim, and a sparse file of a few kilobytes can claim gigabytes.
package elffile

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"
)

// maxHeaders limits the bytes of the headers of a file and of the names of its sections. Real files
// have a few kilobytes. Since sections can share their names, this bounds the names too: the names
// of 512 sections, each 32 KB long, take 16 MB.
const maxHeaders = 64 << 10

var errTooLarge = errors.New("more than a program has")

// reader limits the bytes that are read from a file until New has set opened.
type reader struct {
	io.ReaderAt
	left   int
	opened bool
}

func (r *reader) ReadAt(p []byte, off int64) (int, error) {
	if !r.opened {
		if r.left -= len(p); r.left < 0 {
			return 0, errTooLarge
		}
	}
	return r.ReaderAt.ReadAt(p, off)
}

// New reads the headers of an ELF file. It returns an error if they are larger than real headers.
// The contents of sections are as large as the headers claim: use Data.
func New(r io.ReaderAt) (*elf.File, error) {
	limited := &reader{ReaderAt: r, left: maxHeaders}
	f, err := elf.NewFile(limited)
	if err != nil {
		return nil, fmt.Errorf("ELF headers: %w", err)
	}
	limited.opened = true
	return f, nil
}

// Data returns the contents of a section, or an error if they exceed the limit.
func Data(s *elf.Section, limit uint64) ([]byte, error) {
	if s.Size > limit || s.FileSize > limit {
		return nil, fmt.Errorf("section %.32q: %d bytes exceed the limit of %d", s.Name, max(s.Size, s.FileSize), limit)
	}
	return s.Data()
}

// ReadSome reads up to n bytes of a file, whose headers may overstate its size. It returns nil after an error.
func ReadSome(r io.ReaderAt, offset int64, n uint64) []byte {
	data, err := io.ReadAll(io.NewSectionReader(r, offset, int64(n)))
	if err != nil {
		return nil
	}
	return data
}

// Keep removes the sections whose names are not listed, and returns the number of bytes that the others claim.
func Keep(f *elf.File, names ...string) (size uint64) {
	f.Sections = slices.DeleteFunc(f.Sections, func(s *elf.Section) bool { return !slices.Contains(names, s.Name) })
	for _, s := range f.Sections {
		if size+s.Size < size {
			return ^uint64(0)
		}
		size += s.Size
	}
	return size
}
