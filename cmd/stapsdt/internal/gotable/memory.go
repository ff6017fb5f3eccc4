package gotable

import (
	"debug/elf"
	"sort"

	"github.com/go-stapsdt/stapsdt/internal/elffile"
)

// memory is the content of a loaded file. In a program whose addresses are not fixed,
// relocations hold the pointers.
type memory struct {
	file *elf.File
	// at holds the addresses of the pointers that the loader writes, in order, and to their
	// values before the load address is added.
	at, to []uint64
}

func newMemory(f *elf.File) *memory {
	m := &memory{file: f}
	section := f.Section(".rela.dyn")
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
	type rela struct{ at, to uint64 }
	var all []rela
	for ; len(data) >= size; data = data[size:] {
		if uint32(f.ByteOrder.Uint64(data[8:])) == relative {
			all = append(all, rela{f.ByteOrder.Uint64(data), f.ByteOrder.Uint64(data[16:])})
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].at < all[j].at })
	for _, r := range all {
		m.at, m.to = append(m.at, r.at), append(m.to, r.to)
	}
	return m
}

// pointersTo returns the addresses of the pointers to an address.
func (m *memory) pointersTo(address uint64) (all []uint64) {
	for i, to := range m.to {
		if to == address {
			all = append(all, m.at[i])
		}
	}
	if len(all) > 0 {
		return all
	}
	for _, p := range m.file.Progs {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_X != 0 {
			continue
		}
		data := m.read(p, p.Vaddr)
		for i := -p.Vaddr & 7; i+8 <= uint64(len(data)); i += 8 {
			if m.file.ByteOrder.Uint64(data[i:]) == address {
				all = append(all, p.Vaddr+i)
			}
		}
	}
	return all
}

// load reads bytes at an address, and reports whether the file has them.
func (m *memory) load(b []byte, at uint64) bool {
	for _, p := range m.file.Progs {
		if p.Type == elf.PT_LOAD && at >= p.Vaddr && at-p.Vaddr < p.Filesz && p.Filesz-(at-p.Vaddr) >= uint64(len(b)) {
			_, err := p.ReadAt(b, int64(at-p.Vaddr))
			return err == nil
		}
	}
	return false
}

// pointer returns the pointer at an address.
func (m *memory) pointer(at uint64) (uint64, bool) {
	i := sort.Search(len(m.at), func(i int) bool { return m.at[i] >= at })
	if i < len(m.at) && m.at[i] == at {
		return m.to[i], true
	}
	var b [8]byte
	ok := m.load(b[:], at)
	return m.file.ByteOrder.Uint64(b[:]), ok
}

// contains reports whether an address is in a part of the file that is loaded with these
// permissions.
func (m *memory) contains(address uint64, flags elf.ProgFlag) bool {
	for _, p := range m.file.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&flags == flags && address >= p.Vaddr && address-p.Vaddr < p.Filesz {
			return true
		}
	}
	return false
}

// bytes returns the content from an address to the end of the part of the file that contains it.
func (m *memory) bytes(address uint64) []byte {
	for _, p := range m.file.Progs {
		if p.Type == elf.PT_LOAD && address >= p.Vaddr && address-p.Vaddr < p.Filesz {
			return m.read(p, address)
		}
	}
	return nil
}

// MaxPart is the maximum number of bytes that are read from one part of a file. The largest Go programs
// have tables of some 100 MB.
const MaxPart = 128 << 20

func (m *memory) read(p *elf.Prog, from uint64) []byte {
	size := p.Filesz - (from - p.Vaddr)
	if size > MaxPart {
		return nil
	}
	return elffile.ReadSome(p, int64(from-p.Vaddr), size)
}
