package gotable

import (
	"debug/elf"
	"errors"
	"iter"

	"github.com/go-stapsdt/stapsdt/internal/elffile"
)

// memory is the content of a loaded file. In a program whose addresses are not fixed,
// relocations hold the pointers.
type memory struct {
	file *elf.File
	// relocated are the pointers near a moduledata that the loader writes, by their addresses.
	relocated map[uint64]uint64
}

// relocations yields the addresses of the pointers that the loader writes, and their values before
// the load address is added.
func (m *memory) relocations() iter.Seq2[uint64, uint64] {
	return func(yield func(at, to uint64) bool) {
		section := elffile.Loaded(m.file, ".rela.dyn")
		if section == nil || section.Size > maxPart || m.file.Class != elf.ELFCLASS64 {
			return
		}
		relative := uint32(elf.R_X86_64_RELATIVE)
		if m.file.Machine == elf.EM_AARCH64 {
			relative = uint32(elf.R_AARCH64_RELATIVE)
		}
		const size = 24 // the size of an Elf64_Rela
		order, all := m.file.ByteOrder, newPart(m.file.ByteOrder, section, 0, section.Size)
		for offset := uint64(0); ; {
			b := all.from(offset, size)
			if len(b) < size {
				return
			}
			for ; len(b) >= size; b, offset = b[size:], offset+size {
				if uint32(order.Uint64(b[8:])) == relative &&
					!yield(order.Uint64(b), order.Uint64(b[16:])) {
					return
				}
			}
		}
	}
}

// maxPointers is the maximum number of pointers to the table. A program has two or three.
const maxPointers = 64

// pointersTo returns the addresses of the pointers to an address. The moduledata is in memory that
// the program can write.
func (m *memory) pointersTo(address uint64) (all []uint64) {
	for at, to := range m.relocations() {
		if to == address && len(all) < maxPointers {
			all = append(all, at)
		}
	}
	if len(all) > 0 {
		return all
	}
	for _, p := range m.file.Progs {
		isData := p.Type == elf.PT_LOAD && p.Flags&(elf.PF_W|elf.PF_X) == elf.PF_W
		if !isData || p.Filesz > maxPart {
			continue
		}
		data := newPart(m.file.ByteOrder, p, 0, p.Filesz)
		for i := -p.Vaddr & 7; ; {
			b := data.from(i, 8)
			if len(b) < 8 {
				break
			}
			for ; len(b) >= 8; b, i = b[8:], i+8 {
				if m.file.ByteOrder.Uint64(b) == address && len(all) < maxPointers {
					all = append(all, p.Vaddr+i)
				}
			}
		}
	}
	return all
}

// relocate reads the pointers that the loader writes to a moduledata.
func (m *memory) relocate(module uint64) {
	m.relocated = map[uint64]uint64{}
	for at, to := range m.relocations() {
		if at >= module && at-module < moduleSize {
			m.relocated[at] = to
		}
	}
}

// errNotLoaded means that the file does not load an address.
var errNotLoaded = errors.New("it is not loaded")

// load reads bytes at an address.
func (m *memory) load(b []byte, at uint64) error {
	p := elffile.Segment(m.file, at, 0)
	if p == nil {
		return errNotLoaded
	}
	_, err := p.ReadAt(b, int64(at-p.Vaddr))
	return err
}

// pointer returns the pointer at an address of a moduledata.
func (m *memory) pointer(at uint64) (uint64, bool) {
	if to, found := m.relocated[at]; found {
		return to, true
	}
	var b [8]byte
	err := m.load(b[:], at)
	return m.file.ByteOrder.Uint64(b[:]), err == nil
}

// contains reports whether an address is in a part of the file that is loaded with these
// permissions.
func (m *memory) contains(address uint64, flags elf.ProgFlag) bool {
	return elffile.Segment(m.file, address, flags) != nil
}

// part returns the content from an address to the end of its section or, without one, of the part
// of the file that contains it.
func (m *memory) part(address uint64) *part {
	p := elffile.Segment(m.file, address, 0)
	if p == nil {
		return nil
	}
	offset, size := address-p.Vaddr, p.Filesz-(address-p.Vaddr)
	for _, s := range m.file.Sections {
		if s.Addr != 0 && address >= s.Addr && address-s.Addr < s.Size {
			size = min(size, s.Size-(address-s.Addr))
		}
	}
	return newPart(m.file.ByteOrder, p, offset, min(size, maxPart))
}
