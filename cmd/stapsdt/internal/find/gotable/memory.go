package gotable

import (
	"cmp"
	"debug/elf"
	"errors"
	"slices"

	"github.com/go-stapsdt/stapsdt/internal/elffile"
)

// memory is the content of a loaded file. In a program whose addresses are not fixed,
// relocations hold the pointers.
type memory struct {
	file *elf.File
	// relocations are the pointers that the loader writes, in the order of their addresses.
	relocations []relocation
}

// relocation is the address of a pointer, and its value before the load address is added.
type relocation struct{ at, to uint64 }

func newMemory(f *elf.File) *memory {
	m := &memory{file: f}
	section := elffile.Loaded(f, ".rela.dyn")
	if section == nil || f.Class != elf.ELFCLASS64 {
		return m
	}
	relative := uint32(elf.R_X86_64_RELATIVE)
	if f.Machine == elf.EM_AARCH64 {
		relative = uint32(elf.R_AARCH64_RELATIVE)
	}
	data, err := elffile.Data(section, MaxPart)
	if err != nil {
		return m
	}
	const size = 24 // the size of an Elf64_Rela
	for ; len(data) >= size; data = data[size:] {
		if uint32(f.ByteOrder.Uint64(data[8:])) == relative {
			m.relocations = append(
				m.relocations, relocation{f.ByteOrder.Uint64(data), f.ByteOrder.Uint64(data[16:])},
			)
		}
	}
	slices.SortFunc(m.relocations, func(a, b relocation) int { return cmp.Compare(a.at, b.at) })
	return m
}

// pointersTo returns the addresses of the pointers to an address.
func (m *memory) pointersTo(address uint64) (all []uint64) {
	for _, r := range m.relocations {
		if r.to == address {
			all = append(all, r.at)
		}
	}
	if len(all) > 0 {
		return all
	}
	for _, p := range m.file.Progs {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_X != 0 {
			continue
		}
		data := read(p, p.Vaddr)
		for i := -p.Vaddr & 7; i+8 <= uint64(len(data)); i += 8 {
			if m.file.ByteOrder.Uint64(data[i:]) == address {
				all = append(all, p.Vaddr+i)
			}
		}
	}
	return all
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

// pointer returns the pointer at an address.
func (m *memory) pointer(at uint64) (uint64, bool) {
	i, found := slices.BinarySearchFunc(
		m.relocations, at, func(r relocation, at uint64) int { return cmp.Compare(r.at, at) },
	)
	if found {
		return m.relocations[i].to, true
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

// bytes returns the content from an address to the end of the part of the file that contains it.
func (m *memory) bytes(address uint64) []byte {
	if p := elffile.Segment(m.file, address, 0); p != nil {
		return read(p, address)
	}
	return nil
}

// MaxPart is the maximum number of bytes that are read from one part of a file. The largest Go
// programs have tables of some 100 MB.
const MaxPart = 128 << 20

func read(p *elf.Prog, from uint64) []byte {
	size := p.Filesz - (from - p.Vaddr)
	if size > MaxPart {
		return nil
	}
	return elffile.ReadSome(p, int64(from-p.Vaddr), size)
}
