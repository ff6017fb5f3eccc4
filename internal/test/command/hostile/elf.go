package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
)

// A file is an ELF file with notes, whose code begins at 4096. Sections can claim more than
// they have.
type file struct {
	notes    []byte
	counter  uint64 // address of the semaphore of the next notes, or 0
	sections []section
	large    bool
}

type section struct {
	name     string
	kind     elf.SectionType
	flags    elf.SectionFlag
	contents []byte
	size     uint64 // that it claims, if that is more
	link     uint32
	entry    uint64
}

// note adds a probe with a site in the code.
func (f *file) note(site uint64, provider, name, args string) {
	var desc bytes.Buffer
	for _, word := range []uint64{codeAt + site%f.size(), 0, f.counter} {
		binary.Write(&desc, binary.LittleEndian, word)
	}
	desc.WriteString(provider + "\x00" + name + "\x00" + args + "\x00")
	f.notes = binary.LittleEndian.AppendUint32(f.notes, 8)
	f.notes = binary.LittleEndian.AppendUint32(f.notes, uint32(desc.Len()))
	f.notes = binary.LittleEndian.AppendUint32(f.notes, 3)
	f.notes = append(append(f.notes, "stapsdt\x00"...), desc.Bytes()...)
	for len(f.notes)%4 != 0 {
		f.notes = append(f.notes, 0)
	}
}

// The code of a file is a page, or so large that each of the largest number of probes has a place of its own.
const codeAt, codeSize, largeCode = 4096, 4096, 1 << 18

func (f *file) size() uint64 {
	if f.large {
		return largeCode
	}
	return codeSize
}

// bytes returns the file, with the claims of its sections in its size too: the rest is a hole.
func (f *file) bytes() (contents []byte, size int64) {
	all := append([]section{
		{}, {name: ".text", kind: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, contents: bytes.Repeat([]byte{0x90}, int(f.size()))},
		{name: ".note.stapsdt", kind: elf.SHT_NOTE, contents: f.notes},
	}, f.sections...)
	all = append(all, section{name: ".shstrtab", kind: elf.SHT_STRTAB})
	last := &all[len(all)-1]
	var names []uint32
	for _, s := range all {
		names = append(names, uint32(len(last.contents)))
		last.contents = append(last.contents, s.name+"\x00"...)
	}
	out := make([]byte, codeAt)
	headers := make([]elf.Section64, len(all))
	for i, s := range all {
		headers[i] = elf.Section64{
			Name: names[i], Type: uint32(s.kind), Flags: uint64(s.flags), Off: uint64(len(out)), Size: max(s.size, uint64(len(s.contents))),
			Link: s.link, Entsize: s.entry, Addralign: 4,
		}
		out = append(out, s.contents...)
		for len(out)%8 != 0 {
			out = append(out, 0)
		}
	}
	headers[1].Addr = codeAt
	table := uint64(len(out))
	size = int64(table) + int64(64*len(headers))
	for i, s := range all {
		if s.size > uint64(len(s.contents)) {
			headers[i].Off = uint64(size)
			size += int64(s.size)
		}
	}
	header := elf.Header64{
		Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64, Shoff: table,
		Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64, Shnum: uint16(len(all)), Shstrndx: uint16(len(all) - 1),
	}
	copy(header.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	var head, tail bytes.Buffer
	for _, v := range []any{header, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Off: codeAt, Vaddr: codeAt, Paddr: codeAt, Filesz: f.size(), Memsz: f.size(), Align: codeAt}} {
		binary.Write(&head, binary.LittleEndian, v)
	}
	binary.Write(&tail, binary.LittleEndian, headers)
	copy(out, head.Bytes())
	return append(out, tail.Bytes()...), size
}

// types returns DWARF whose entries take long to read: of one byte each.
func types(entries int) []section {
	info := []byte{0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 1}
	info = append(append(info, bytes.Repeat([]byte{2}, entries)...), 0)
	binary.LittleEndian.PutUint32(info, uint32(len(info)-4))
	return []section{
		{name: ".debug_abbrev", kind: elf.SHT_PROGBITS, contents: []byte{1, 0x11, 1, 0, 0, 2, 0x24, 0, 0, 0, 0}},
		{name: ".debug_info", kind: elf.SHT_PROGBITS, contents: info},
	}
}

// selected is a file with a probe.
func selected(provider, name, args string) *file {
	f := &file{}
	f.note(0, provider, name, args)
	return f
}

// maxNotes is what package sdt reads of a file's notes.
const maxNotes = 8 << 20

// many is a file with n probes, or as many as its notes may have.
func many(provider, name string, n int) *file {
	f := &file{large: true}
	for i := 0; i < n && len(f.notes) < maxNotes-256; i++ {
		f.note(uint64(i), provider, name, fmt.Sprintf("8@%d(%%rdi)", i))
	}
	return f
}
