package sdt

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	noteSection = ".note.stapsdt"
	baseSection = ".stapsdt.base"

	// Real files are below these limits. A file that exceeds one is refused, so that reading
	// a file costs little time and memory whatever it contains.
	maxSections = 1 << 18
	maxSegments = 256
	maxNotes    = 8 << 20
	maxOffset   = 1 << 62
)

// elfFile reads the parts of an ELF file that this package needs. debug/elf is not used,
// because it reads whole tables into memory, as large as the headers claim them to be.
type elfFile struct {
	r        io.ReaderAt
	buffer   [64]byte // buffer for one header at a time
	order    binary.ByteOrder
	wide     bool // the file has 64 bits
	machine  elf.Machine
	kind     elf.Type
	segments []segment
	code     uint64 // the lowest address that an instruction can have
	notes    []section
	base     *section
	debug    []section
}

type segment struct {
	offset, addr, size uint64
	executable         bool
}

type section struct {
	name               string
	kind               elf.SectionType
	flags              elf.SectionFlag
	addr, offset, size uint64
	align              uint64
}

// header has the fields of an ELF header that lead to the tables.
type header struct {
	phoff, shoff                            uint64
	phentsize, phnum, shentsize, shnum, str uint64
}

func openELF(r io.ReaderAt) (*elfFile, error) {
	f := &elfFile{r: r}
	h, err := f.readHeader()
	if err != nil {
		return nil, fmt.Errorf("ELF header: %w", err)
	}
	names, err := f.extend(&h)
	if err != nil {
		return nil, fmt.Errorf("ELF section headers: %w", err)
	}
	if err := f.readSegments(h); err != nil {
		return nil, err
	}
	if err := f.readSections(h, names); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *elfFile) readHeader() (header, error) {
	var h header
	var ident [elf.EI_NIDENT]byte
	if err := readFull(f.r, ident[:], 0); err != nil {
		return h, err
	}
	if string(ident[:4]) != elf.ELFMAG {
		return h, fmt.Errorf("magic number %q is not ELF's", ident[:4])
	}
	switch elf.Data(ident[elf.EI_DATA]) {
	case elf.ELFDATA2LSB:
		f.order = binary.LittleEndian
	case elf.ELFDATA2MSB:
		f.order = binary.BigEndian
	default:
		return h, fmt.Errorf("unknown byte order %d", ident[elf.EI_DATA])
	}
	switch elf.Class(ident[elf.EI_CLASS]) {
	case elf.ELFCLASS32:
		var e elf.Header32
		if err := f.decode(0, &e); err != nil {
			return h, err
		}
		h = header{uint64(e.Phoff), uint64(e.Shoff), uint64(e.Phentsize), uint64(e.Phnum),
			uint64(e.Shentsize), uint64(e.Shnum), uint64(e.Shstrndx)}
		f.machine, f.kind = elf.Machine(e.Machine), elf.Type(e.Type)
	case elf.ELFCLASS64:
		var e elf.Header64
		if err := f.decode(0, &e); err != nil {
			return h, err
		}
		h = header{e.Phoff, e.Shoff, uint64(e.Phentsize), uint64(e.Phnum),
			uint64(e.Shentsize), uint64(e.Shnum), uint64(e.Shstrndx)}
		f.machine, f.kind, f.wide = elf.Machine(e.Machine), elf.Type(e.Type), true
	default:
		return h, fmt.Errorf("unknown class %d", ident[elf.EI_CLASS])
	}
	return h, nil
}

// extend replaces the numbers that are too large for the header by the numbers in the first
// section header, and returns the section with the sections' names.
func (f *elfFile) extend(h *header) (names elf.Section64, err error) {
	if h.shoff == 0 {
		h.shnum = 0
		return names, nil
	}
	if want := uint64(f.pick(40, 64)); h.shentsize < want {
		return names, fmt.Errorf("section headers of %d bytes are too short", h.shentsize)
	}
	first, err := f.sectionHeader(h.shoff)
	if err != nil {
		return names, err
	}
	if h.shnum == 0 {
		h.shnum = first.Size
	}
	if h.str == uint64(elf.SHN_XINDEX) {
		h.str = uint64(first.Link)
	}
	if h.phnum == 0xffff { // PN_XNUM
		h.phnum = uint64(first.Info)
	}
	if h.shnum > maxSections {
		return names, fmt.Errorf("%d sections exceed the limit of %d", h.shnum, maxSections)
	}
	if h.str >= h.shnum {
		return names, fmt.Errorf("section %d, of the names, is none of %d", h.str, h.shnum)
	}
	return f.sectionHeader(h.shoff + h.str*h.shentsize)
}

func (f *elfFile) readSegments(h header) error {
	if h.phoff == 0 {
		return nil
	}
	if want := uint64(f.pick(32, 56)); h.phnum > 0 && h.phentsize < want {
		return fmt.Errorf("ELF program headers of %d bytes are too short", h.phentsize)
	}
	f.code = ^uint64(0)
	if h.phnum > 0xffff {
		return fmt.Errorf("%d ELF program headers exceed the limit of %d", h.phnum, 0xffff)
	}
	for i := range h.phnum {
		var p elf.Prog64
		var err error
		at := h.phoff + i*h.phentsize
		if f.wide {
			err = f.decode(at, &p)
		} else {
			var n elf.Prog32
			err = f.decode(at, &n)
			p = elf.Prog64{Type: n.Type, Flags: n.Flags, Off: uint64(n.Off), Vaddr: uint64(n.Vaddr), Filesz: uint64(n.Filesz)}
		}
		if err != nil {
			return fmt.Errorf("ELF program header %d at %#x: %w", i, at, err)
		}
		if elf.ProgType(p.Type) != elf.PT_LOAD {
			continue
		}
		if len(f.segments) == maxSegments {
			return fmt.Errorf("more than %d loadable ELF segments", maxSegments)
		}
		s := segment{p.Off, p.Vaddr, p.Filesz, elf.ProgFlag(p.Flags)&elf.PF_X != 0}
		f.segments = append(f.segments, s)
		if s.executable {
			headers := uint64(f.pick(52, 64))
			if h.phoff == headers {
				headers += h.phnum * h.phentsize
			}
			f.code = min(f.code, s.addr+max(headers, s.offset)-s.offset)
		}
	}
	return nil
}

// readSections keeps the sections of notes, .stapsdt.base and the sections of DWARF.
func (f *elfFile) readSections(h header, names elf.Section64) error {
	for i := range h.shnum {
		at := h.shoff + i*h.shentsize
		e, err := f.sectionHeader(at)
		if err != nil {
			return fmt.Errorf("ELF section header %d at %#x: %w", i, at, err)
		}
		s := section{kind: elf.SectionType(e.Type), flags: elf.SectionFlag(e.Flags), addr: e.Addr, offset: e.Off, size: e.Size,
			align: e.Addralign}
		switch s.kind {
		case elf.SHT_NOTE, elf.SHT_PROGBITS, elf.SHT_NOBITS:
		default:
			continue
		}
		s.name = f.sectionName(names, uint64(e.Name))
		switch {
		case s.name == noteSection:
			if len(f.notes) < maxSegments {
				f.notes = append(f.notes, s)
			}
		case s.name == baseSection && f.base == nil:
			f.base = &s
		case debugName(s.name) && len(f.debug) < maxSegments:
			f.debug = append(f.debug, s)
		}
	}
	return nil
}

// sectionName returns a section's name, or "" if it is longer than any name that matters.
func (f *elfFile) sectionName(names elf.Section64, at uint64) string {
	var b [24]byte
	if at >= names.Size || names.Off > maxOffset {
		return ""
	}
	n, _ := f.r.ReadAt(b[:min(uint64(len(b)), names.Size-at)], int64(names.Off+at))
	name, _, ok := bytes.Cut(b[:max(n, 0)], []byte{0})
	if !ok {
		return ""
	}
	return string(name)
}

func (f *elfFile) sectionHeader(at uint64) (elf.Section64, error) {
	var h elf.Section64
	if f.wide {
		err := f.decode(at, &h)
		return h, err
	}
	var n elf.Section32
	err := f.decode(at, &n)
	return elf.Section64{Name: n.Name, Type: n.Type, Flags: uint64(n.Flags), Addr: uint64(n.Addr), Off: uint64(n.Off),
		Size: uint64(n.Size), Link: n.Link, Info: n.Info, Addralign: uint64(n.Addralign)}, err
}

func (f *elfFile) pick(narrow, wide int) int {
	if f.wide {
		return wide
	}
	return narrow
}

// decode reads a structure of fixed size.
func (f *elfFile) decode(at uint64, v any) error {
	data := f.buffer[:binary.Size(v)]
	if err := readFull(f.r, data, at); err != nil {
		return err
	}
	_, err := binary.Decode(data, f.order, v)
	return err
}

// shift returns how far the file was moved since a note with this base was written. It returns
// 0 if the base is unknown or the file has no .stapsdt.base.
func (f *elfFile) shift(base uint64) uint64 {
	if f.base == nil || base == 0 {
		return 0
	}
	return f.mask(f.base.addr - base)
}

// notation returns the machine in whose notation the operands are. A 64-bit machine with
// 32-bit files, such as x32, has registers of another width, and is unknown.
func (f *elfFile) notation() elf.Machine {
	if s := syntaxOf(f.machine); s != nil && s.address != f.pick(32, 64) {
		return elf.EM_NONE
	}
	return f.machine
}

func (f *elfFile) mask(addr uint64) uint64 {
	if f.wide {
		return addr
	}
	return addr & 0xffffffff
}

// fileOffset returns the file offset of an address according to the program headers, by which
// the kernel maps the file. Section headers may differ.
func (f *elfFile) fileOffset(addr uint64, executable bool) (uint64, bool) {
	for _, s := range f.segments {
		if addr >= s.addr && addr-s.addr < s.size && (s.executable || !executable) {
			return s.offset + (addr - s.addr), true
		}
	}
	return 0, false
}

// readFull fills b from an offset of the file. The error is io.ErrUnexpectedEOF if the
// file ends before.
func readFull(r io.ReaderAt, b []byte, at uint64) error {
	if at > maxOffset {
		return io.ErrUnexpectedEOF
	}
	n, err := r.ReadAt(b, int64(at))
	if n >= len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// readRange reads size bytes. It allocates memory only for existing bytes, whatever a header claims.
func readRange(r io.ReaderAt, at, size uint64) ([]byte, error) {
	const first = 64 << 10
	var data []byte
	for uint64(len(data)) < size {
		have := len(data)
		next := min(size, uint64(max(first, 2*have)))
		grown := make([]byte, next)
		copy(grown, data)
		data = grown
		if err := readFull(r, data[have:], at+uint64(have)); err != nil {
			return nil, err
		}
	}
	return data, nil
}
