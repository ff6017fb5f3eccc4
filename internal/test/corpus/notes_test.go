//go:build linux

package corpus

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-stapsdt/stapsdt/sdt"
)

var update = flag.Bool("update", false, "have TestReadelf write testdata/notes")

// excerpt is the part of a file that its probes are read from, and what readelf prints of them. Files of testdata/notes
// hold one each.
type excerpt struct {
	Package string // and where the file is in it
	Class   elf.Class
	Data    elf.Data
	Machine elf.Machine
	Type    elf.Type
	Load    []load
	Base    uint64 // the address of .stapsdt.base
	Align   uint64 // of .note.stapsdt
	Notes   []byte
	Readelf []string
}

// load is a loadable segment.
type load struct {
	Offset, Address, Size uint64
	Flags                 elf.ProgFlag
}

// extract returns the excerpt of a file.
func extract(t *testing.T, path string) excerpt {
	t.Helper()
	f, err := elf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	e := excerpt{Class: f.Class, Data: f.Data, Machine: f.Machine, Type: f.Type, Readelf: readelfNotes(t, path)}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			e.Load = append(e.Load, load{p.Off, p.Vaddr, p.Filesz, p.Flags})
		}
	}
	e.Base = f.Section(".stapsdt.base").Addr
	notes := f.Section(".note.stapsdt")
	e.Align = notes.Addralign
	e.Notes, err = notes.Data()
	require.NoError(t, err)
	return e
}

// save writes the excerpt of a file of the cache. It leaves out the largest ones, but for i386's postgres, which has the one
// operand that is not understood, and riscv64's, for which there are few other probes.
func save(t *testing.T, c corpus, path string) {
	t.Helper()
	name := filepath.Base(path)
	if name == "libjvm.so" || name == "postgres" && c.arch != "i386" && c.arch != "riscv64" {
		return
	}
	e := extract(t, path)
	_, e.Package, _ = strings.Cut(path, "/corpus/")
	text, err := json.MarshalIndent(e, "", "\t")
	require.NoError(t, err)
	name, _, _ = strings.Cut(name, ".")
	require.NoError(t, os.WriteFile(filepath.Join("testdata/notes", c.arch+"-"+name+".json"), append(text, '\n'), 0o644))
}

// file returns an ELF file with the headers and sections of the excerpt.
func (e *excerpt) file(t *testing.T) []byte {
	t.Helper()
	var order binary.ByteOrder = binary.LittleEndian
	if e.Data == elf.ELFDATA2MSB {
		order = binary.BigEndian
	}
	wide := e.Class == elf.ELFCLASS64
	var b bytes.Buffer
	write := func(narrow, broad any) {
		if wide {
			narrow = broad
		}
		require.NoError(t, binary.Write(&b, order, narrow))
	}
	const names = "\x00.note.stapsdt\x00.stapsdt.base\x00.shstrtab\x00"
	headerSize, segmentSize, sectionSize := uint64(52), uint64(32), uint64(40)
	if wide {
		headerSize, segmentSize, sectionSize = 64, 56, 64
	}
	at := headerSize + segmentSize*uint64(len(e.Load)) // of the notes
	namesAt := at + uint64(len(e.Notes))
	sectionsAt := namesAt + uint64(len(names))
	ident := [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(e.Class), byte(e.Data), byte(elf.EV_CURRENT)}
	write(elf.Header32{Ident: ident, Type: uint16(e.Type), Machine: uint16(e.Machine), Version: 1, Phoff: uint32(headerSize), Shoff: uint32(sectionsAt),
		Ehsize: uint16(headerSize), Phentsize: uint16(segmentSize), Phnum: uint16(len(e.Load)), Shentsize: uint16(sectionSize), Shnum: 4, Shstrndx: 3},
		elf.Header64{Ident: ident, Type: uint16(e.Type), Machine: uint16(e.Machine), Version: 1, Phoff: headerSize, Shoff: sectionsAt,
			Ehsize: uint16(headerSize), Phentsize: uint16(segmentSize), Phnum: uint16(len(e.Load)), Shentsize: uint16(sectionSize), Shnum: 4, Shstrndx: 3})
	for _, l := range e.Load {
		write(elf.Prog32{Type: uint32(elf.PT_LOAD), Flags: uint32(l.Flags), Off: uint32(l.Offset), Vaddr: uint32(l.Address), Filesz: uint32(l.Size)},
			elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(l.Flags), Off: l.Offset, Vaddr: l.Address, Filesz: l.Size})
	}
	b.Write(e.Notes)
	b.WriteString(names)
	section := func(name string, kind elf.SectionType, addr, offset, size, align uint64) {
		index := uint32(max(0, strings.Index(names, name)))
		write(elf.Section32{Name: index, Type: uint32(kind), Addr: uint32(addr), Off: uint32(offset), Size: uint32(size), Addralign: uint32(align)},
			elf.Section64{Name: index, Type: uint32(kind), Addr: addr, Off: offset, Size: size, Addralign: align})
	}
	section("", elf.SHT_NULL, 0, 0, 0, 0)
	section(".note.stapsdt", elf.SHT_NOTE, 0, at, uint64(len(e.Notes)), e.Align)
	section(".stapsdt.base", elf.SHT_PROGBITS, e.Base, namesAt, 1, 1)
	section(".shstrtab", elf.SHT_STRTAB, 0, namesAt, uint64(len(names)), 1)
	return b.Bytes()
}

// TestNotes: the notes of programs of seven architectures are read as readelf prints them, and all of their operands but one
// are understood.
func TestNotes(t *testing.T) {
	paths, err := filepath.Glob("testdata/notes/*.json")
	require.NoError(t, err)
	machines := map[elf.Machine]bool{}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			var e excerpt
			require.NoError(t, json.Unmarshal(text, &e))
			probes, err := sdt.Read(bytes.NewReader(e.file(t)))
			require.NoError(t, err)
			require.Equal(t, e.Readelf, asReadelf(t, probes))
			for _, p := range probes {
				i := slices.IndexFunc(e.Load, func(l load) bool {
					return l.Flags&elf.PF_X != 0 && p.Address >= l.Address && p.Address-l.Address < l.Size
				})
				require.GreaterOrEqual(t, i, 0, "%s:%s", p.Provider, p.Name)
				require.Equal(t, p.Address-e.Load[i].Address+e.Load[i].Offset, p.Offset, "%s:%s", p.Provider, p.Name)
			}
			machines[e.Machine] = true
		})
	}
	require.Len(t, machines, len(corpora))
}
