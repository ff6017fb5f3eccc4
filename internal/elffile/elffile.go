// Package elffile opens untrusted ELF files with debug/elf, within limits. debug/elf allocates and
// reads as much as a file's headers claim, and a sparse file of a few kilobytes can claim
// gigabytes.
package elffile

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxHeaders limits the bytes of the headers of a file and of the names of its sections. Real files
// have a few kilobytes.
const maxHeaders = 128 << 10

// maxSegments limits the number of loaded segments, because each address is searched in all of
// them. Real files have a dozen.
const maxSegments = 256

var errTooLarge = errors.New("more than a program has")

// reader limits the bytes that are read from a file until New has set opened. Until then it
// replaces the beginning of the file: a process may change it, and New and debug/elf must see the
// same.
type reader struct {
	io.ReaderAt
	left   int
	head   []byte
	opened bool
}

func (r *reader) ReadAt(p []byte, off int64) (int, error) {
	if r.opened {
		return r.ReaderAt.ReadAt(p, off)
	}
	if r.left -= len(p); r.left < 0 {
		return 0, errTooLarge
	}
	n, err := r.ReaderAt.ReadAt(p, off)
	if off < int64(len(r.head)) {
		copy(p[:n], r.head[off:])
	}
	return n, err
}

// New reads the headers of an ELF file. It returns an error if they are larger than real headers.
// The contents of sections are as large as the headers claim: use Data.
func New(r io.ReaderAt) (*elf.File, error) {
	var head [64]byte
	n, err := r.ReadAt(head[:], 0)
	if n < len(head) && err != io.EOF {
		return nil, err
	}
	names := 62 // e_shstrndx, the number of the section with the names
	if elf.Class(head[elf.EI_CLASS]) == elf.ELFCLASS32 {
		names = 50
	}
	// debug/elf would expand compressed names, and copy a name for each section that has it.
	unnamed := head
	unnamed[names], unnamed[names+1] = 0, 0
	limited := &reader{ReaderAt: r, left: maxHeaders, head: unnamed[:n]}
	f, err := elf.NewFile(limited)
	if err == nil && loaded(f.Progs) > maxSegments {
		err = errTooLarge
	}
	if err == nil {
		err = limited.nameSections(f, head[:])
	}
	if err != nil {
		return nil, fmt.Errorf("ELF headers: %w", err)
	}
	limited.opened = true
	return f, nil
}

// loaded returns the number of loaded segments.
func loaded(progs []*elf.Prog) (n int) {
	for _, p := range progs {
		if p.Type == elf.PT_LOAD {
			n++
		}
	}
	return n
}

// nameSections sets the names of the sections. head is the beginning of the file.
func (r *reader) nameSections(f *elf.File, head []byte) error {
	order := f.ByteOrder
	// e_shoff, e_shentsize, e_shstrndx
	at := order.Uint64(head[40:])
	size, number := int(order.Uint16(head[58:])), int(order.Uint16(head[62:]))
	if f.Class == elf.ELFCLASS32 {
		at = uint64(order.Uint32(head[32:]))
		size, number = int(order.Uint16(head[46:])), int(order.Uint16(head[50:]))
	}
	if number >= len(f.Sections) || number == 0 {
		return nil
	}
	table := f.Sections[number]
	if table.Flags&elf.SHF_COMPRESSED != 0 {
		return errTooLarge
	}
	names, err := Data(table, maxHeaders)
	if err != nil {
		return err
	}
	headers := make([]byte, size*len(f.Sections))
	if _, err := r.ReadAt(headers, int64(at)); err != nil {
		return err
	}
	all := string(names)
	for i, s := range f.Sections {
		at := order.Uint32(headers[i*size:])
		if uint64(at) >= uint64(len(all)) {
			return fmt.Errorf("the name of section %d is outside of the names", i)
		}
		s.Name, _, _ = strings.Cut(all[at:], "\x00")
	}
	return nil
}

// Loaded returns the section with a name, or nil. It ignores a compressed section, because those
// that are loaded are not.
func Loaded(f *elf.File, name string) *elf.Section {
	if s := f.Section(name); s != nil && s.Flags&elf.SHF_COMPRESSED == 0 {
		return s
	}
	return nil
}

// maxExpansion is the maximum size of a compressed section as a multiple of its size in the file.
// Real sections stay well below.
const maxExpansion = 32

// Data returns the contents of a section, or an error if they exceed the limit.
func Data(s *elf.Section, limit uint64) ([]byte, error) {
	if isOld(s) {
		return expand(s, limit)
	}
	if s.Flags&elf.SHF_COMPRESSED != 0 {
		limit = min(limit, maxExpansion*min(s.FileSize, limit))
	}
	if s.Size > limit || s.FileSize > limit {
		return nil, fmt.Errorf("section %.32q: %d bytes exceed the limit of %d", s.Name, max(s.Size, s.FileSize), limit)
	}
	data, err := s.Data()
	if err != nil {
		return nil, fmt.Errorf("section %.32q: %w", s.Name, err)
	}
	return data, nil
}

// DebugSection returns a section of debug information, such as .debug_info, or nil. Old tools
// name it .zdebug_info if it is compressed.
func DebugSection(f *elf.File, name string) *elf.Section {
	s := f.Section(name)
	if s == nil {
		s = f.Section(oldPrefix + strings.TrimPrefix(name, "."))
	}
	if s == nil || s.Type == elf.SHT_NOBITS {
		return nil
	}
	return s
}

const oldPrefix = ".z"

// Compressed reports whether the contents of a section are compressed, so that Data must read them.
func Compressed(s *elf.Section) bool {
	return s.Flags&elf.SHF_COMPRESSED != 0 || isOld(s)
}

// isOld reports whether old tools have compressed a section, in a format of their own.
func isOld(s *elf.Section) bool { return strings.HasPrefix(s.Name, oldPrefix+"debug") }

// expand returns the contents of a section that old tools have compressed. debug/elf would do so
// without a limit, and by the header that the file has then.
func expand(s *elf.Section, limit uint64) ([]byte, error) {
	const magic, header = "ZLIB", 12 // followed by the size
	if s.ReaderAt == nil || s.FileSize > limit {
		return nil, fmt.Errorf("section %.32q: %d bytes exceed the limit of %d", s.Name, s.FileSize, limit)
	}
	data := ReadSome(s.ReaderAt, 0, s.FileSize)
	if len(data) < header || string(data[:len(magic)]) != magic {
		return nil, fmt.Errorf("section %.32q has an unsupported compression", s.Name)
	}
	size := binary.BigEndian.Uint64(data[len(magic):])
	if limit = min(limit, maxExpansion*uint64(len(data))); size > limit {
		return nil, fmt.Errorf("section %.32q: %d bytes exceed the limit of %d", s.Name, size, limit)
	}
	r, err := zlib.NewReader(bytes.NewReader(data[header:]))
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(r, int64(size)))
	}
	if err != nil {
		return nil, fmt.Errorf("section %.32q: %w", s.Name, err)
	}
	return data, nil
}

// ReadSome reads up to n bytes of a file, whose headers may overstate its size. It returns nil
// after an error.
func ReadSome(r io.ReaderAt, offset int64, n uint64) []byte {
	data, err := io.ReadAll(io.NewSectionReader(r, offset, int64(n)))
	if err != nil {
		return nil
	}
	return data
}

// Segment returns the segment with permissions that loads an address from the file, or nil.
func Segment(f *elf.File, address uint64, flags elf.ProgFlag) *elf.Prog {
	i := slices.IndexFunc(f.Progs, func(p *elf.Prog) bool {
		return p.Type == elf.PT_LOAD && p.Flags&flags == flags && address >= p.Vaddr &&
			address-p.Vaddr < p.Filesz
	})
	if i < 0 {
		return nil
	}
	return f.Progs[i]
}
