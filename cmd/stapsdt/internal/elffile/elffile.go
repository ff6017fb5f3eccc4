// Package elffile opens ELF files of strangers with debug/elf, which allocates and reads what the
// headers of a file claim. Files can be sparse, so that a few kilobytes claim gigabytes.
package elffile

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"
)

// maxHeaders is how many bytes the headers of a file and the names of its sections may have. Real
// files have a few kilobytes. Since sections can share their names, this bounds the names too:
// those of 512 sections, each 32 KB long, take 16 MB.
const maxHeaders = 64 << 10

var errTooLarge = errors.New("more than a program has")

// reader reads a file while there are bytes left, and then only its sections.
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

// New reads the headers of an ELF file. It is an error if they are larger than those of programs.
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

// Data returns the contents of a section, of which there may be no more than a limit.
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

// Keep removes the sections whose names are not listed, and returns how many bytes the others claim.
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
