package sdt

import (
	"debug/elf"
	"io"

	"github.com/go-stapsdt/stapsdt/internal/elffile"
)

const (
	noteSection = ".note.stapsdt"
	baseSection = ".stapsdt.base"

	// maxNotes is the maximum number of bytes of notes. Real files are below it, and reading them
	// costs little time and memory.
	maxNotes = 8 << 20
)

// elfFile is an ELF file whose notes are read.
type elfFile struct {
	*elf.File
	base *elf.Section
	code uint64 // the lowest address that an instruction can have
}

func openELF(r io.ReaderAt) (*elfFile, error) {
	opened, err := elffile.New(r)
	if err != nil {
		return nil, err
	}
	f := &elfFile{File: opened, base: opened.Section(baseSection), code: ^uint64(0)}
	headers := uint64(f.pick(52, 64) + len(f.Progs)*f.pick(32, 56))
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			f.code = min(f.code, p.Vaddr+max(headers, p.Off)-p.Off)
		}
	}
	return f, nil
}

func (f *elfFile) pick(narrow, wide int) int {
	if f.Class == elf.ELFCLASS64 {
		return wide
	}
	return narrow
}

// shift returns how far the file was moved since a note with this base was written. It returns
// 0 if the base is unknown or the file has no .stapsdt.base.
func (f *elfFile) shift(base uint64) uint64 {
	if f.base == nil || base == 0 {
		return 0
	}
	return f.mask(f.base.Addr - base)
}

// notation returns the machine in whose notation the operands are. A 64-bit machine with
// 32-bit files, such as x32, has registers of another width, and is unknown.
func (f *elfFile) notation() elf.Machine {
	if s := syntaxOf(f.Machine); s != nil && s.address != f.pick(32, 64) {
		return elf.EM_NONE
	}
	return f.Machine
}

func (f *elfFile) mask(addr uint64) uint64 {
	if f.Class == elf.ELFCLASS64 {
		return addr
	}
	return addr & 0xffffffff
}

// fileOffset returns the file offset of an address according to the program headers, by which
// the kernel maps the file. Section headers may differ.
func (f *elfFile) fileOffset(addr uint64, flags elf.ProgFlag) (uint64, bool) {
	p := elffile.Segment(f.File, addr, flags)
	if p == nil {
		return 0, false
	}
	return p.Off + (addr - p.Vaddr), true
}
