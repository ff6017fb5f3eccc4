package sdt

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"strings"
	"testing"
)

type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// format is one of the four kinds of ELF files.
type format struct {
	order byteOrder
	class elf.Class
}

var formats = []format{
	{binary.LittleEndian, elf.ELFCLASS64}, {binary.BigEndian, elf.ELFCLASS64},
	{binary.LittleEndian, elf.ELFCLASS32}, {binary.BigEndian, elf.ELFCLASS32},
}

func eachFormat(t *testing.T, test func(t *testing.T, f format)) {
	for _, f := range formats {
		t.Run(f.class.String()+f.order.String(), func(t *testing.T) { test(t, f) })
	}
}

// note is one note as a writer lays it out, without the padding after it.
func (f format) note(kind uint32, owner string, pad int, desc []byte) []byte {
	b := f.order.AppendUint32(nil, uint32(len(owner)))
	b = f.order.AppendUint32(b, uint32(len(desc)))
	b = f.order.AppendUint32(b, kind)
	b = padTo(append(b, owner...), pad)
	return append(b, desc...)
}

func padTo(b []byte, pad int) []byte {
	for len(b)%pad != 0 {
		b = append(b, 0)
	}
	return b
}

func (f format) desc(address, base, semaphore uint64, text string) []byte {
	var b []byte
	for _, w := range []uint64{address, base, semaphore} {
		if f.class == elf.ELFCLASS32 {
			b = f.order.AppendUint32(b, uint32(w))
		} else {
			b = f.order.AppendUint64(b, w)
		}
	}
	return append(b, text...)
}

// sdtNote is a note of this library's type, with the padding after it.
func (f format) sdtNote(address, base, semaphore uint64, text string) []byte {
	return padTo(f.note(3, "stapsdt\x00", 4, f.desc(address, base, semaphore, text)), 4)
}

// part is a section of a file that the tests make.
type part struct {
	name  string
	kind  elf.SectionType
	flags elf.SectionFlag
	align uint64
	data  []byte
}

// file is an ELF file: code at 0x1000, 0x100 bytes at offset 0x200; data at 0x2000, 0x40
// bytes at offset 0x300; .stapsdt.base at an address; and the parts.
func (f format) file(machine elf.Machine, base uint64, parts ...part) []byte {
	const codeAt, dataAt, partsAt = 0x200, 0x300, 0x340
	names := "\x00.stapsdt.base\x00.shstrtab\x00"
	sections := []elf.Section64{{}, {Name: 1, Type: uint32(elf.SHT_PROGBITS), Addr: base, Off: codeAt, Size: 1, Addralign: 1}}
	body := make([]byte, partsAt)
	for _, p := range parts {
		body = padTo(body, 8)
		sections = append(sections, elf.Section64{Name: uint32(len(names)), Type: uint32(p.kind), Flags: uint64(p.flags), Off: uint64(len(body)),
			Size: uint64(len(p.data)), Addralign: p.align})
		names += p.name + "\x00"
		body = append(body, p.data...)
	}
	sections = append(sections, elf.Section64{Name: uint32(strings.Index(names, ".shstrtab")), Type: uint32(elf.SHT_STRTAB),
		Off: uint64(len(body)), Size: uint64(len(names)), Addralign: 1})
	body = padTo(append(body, names...), 16)
	sectionsAt := uint64(len(body))
	ident := [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(f.class), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}
	if f.order.String() == binary.BigEndian.String() {
		ident[elf.EI_DATA] = byte(elf.ELFDATA2MSB)
	}
	segments := []elf.Prog64{
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Off: codeAt, Vaddr: 0x1000, Filesz: 0x100, Memsz: 0x100},
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Off: dataAt, Vaddr: 0x2000, Filesz: 0x40, Memsz: 0x80},
	}
	var head bytes.Buffer
	write := func(v any) {
		if err := binary.Write(&head, f.order, v); err != nil {
			panic(err)
		}
	}
	if f.class == elf.ELFCLASS64 {
		write(elf.Header64{Ident: ident, Type: uint16(elf.ET_DYN), Machine: uint16(machine), Version: 1, Phoff: 0x40, Shoff: sectionsAt,
			Ehsize: 64, Phentsize: 56, Phnum: 2, Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: uint16(len(sections) - 1)})
		write(segments)
		copy(body, head.Bytes())
		head.Reset()
		write(sections)
		return append(body, head.Bytes()...)
	}
	write(elf.Header32{Ident: ident, Type: uint16(elf.ET_DYN), Machine: uint16(machine), Version: 1, Phoff: 0x34, Shoff: uint32(sectionsAt),
		Ehsize: 52, Phentsize: 32, Phnum: 2, Shentsize: 40, Shnum: uint16(len(sections)), Shstrndx: uint16(len(sections) - 1)})
	for _, p := range segments {
		write(elf.Prog32{Type: p.Type, Flags: p.Flags, Off: uint32(p.Off), Vaddr: uint32(p.Vaddr), Filesz: uint32(p.Filesz), Memsz: uint32(p.Memsz)})
	}
	copy(body, head.Bytes())
	head.Reset()
	for _, s := range sections {
		write(elf.Section32{Name: s.Name, Type: s.Type, Flags: uint32(s.Flags), Addr: uint32(s.Addr), Off: uint32(s.Off), Size: uint32(s.Size),
			Addralign: uint32(s.Addralign)})
	}
	return append(body, head.Bytes()...)
}

// notes is a section of notes.
func notes(data ...[]byte) part {
	return part{name: noteSection, kind: elf.SHT_NOTE, align: 4, data: bytes.Join(data, nil)}
}

// machine is one whose operands files of the format have.
func (f format) machine() elf.Machine {
	switch {
	case f.class == elf.ELFCLASS32:
		return elf.EM_386
	case f.order.String() == binary.BigEndian.String():
		return elf.EM_S390
	}
	return elf.EM_X86_64
}
