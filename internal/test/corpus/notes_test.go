//go:build linux

package corpus

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// excerpt is the part of a file that its probes are read from, and what readelf prints of them. Files of testdata/notes
// hold one each, of Debian's packages.
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

// notUnderstood are the only operands of the corpus that are not. The assembler relates
// these to the global offset table, whose place the note does not say.
var notUnderstood = regexp.MustCompile(`^-4@[0-9]+\+CheckpointStats@GOTOFF\(%ebx\)$`)

// asReadelf writes probes as readelf prints their notes, one line for each, and requires that their operands are understood.
func asReadelf(t *testing.T, probes []sdt.Site) (notes []string) {
	t.Helper()
	for _, probe := range probes {
		var words []string
		for _, a := range probe.Args {
			if a.Err != nil && !notUnderstood.MatchString(a.String()) {
				t.Errorf("%s:%s: %v", probe.Provider, probe.Name, a.Err)
			}
			words = append(words, a.String())
		}
		notes = append(notes, fmt.Sprintf("%s %s %x %x %s", probe.Provider, probe.Name, probe.Address, probe.Semaphore, strings.Join(words, " ")))
	}
	return notes
}

// eachExcerpt runs a test for each excerpt whose name matches a pattern.
func eachExcerpt(t *testing.T, pattern string, test func(t *testing.T, e *excerpt, file []byte, probes []sdt.Site)) {
	t.Helper()
	paths, err := filepath.Glob("testdata/notes/" + pattern + ".json")
	require.NoError(t, err)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			var e excerpt
			require.NoError(t, json.Unmarshal(text, &e))
			file := e.file(t)
			probes, err := sdt.Read(bytes.NewReader(file))
			require.NoError(t, err)
			test(t, &e, file, probes)
		})
	}
}

// TestNotes: the notes of programs of seven architectures are read as readelf prints them, and all of their operands but one
// are understood.
func TestNotes(t *testing.T) {
	machines := map[elf.Machine]bool{}
	eachExcerpt(t, "*", func(t *testing.T, e *excerpt, _ []byte, probes []sdt.Site) {
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
	require.Len(t, machines, 7)
}

// asTplist writes an argument as bcc's tplist prints it.
func asTplist(a sdt.Arg) string {
	o := a.Operand
	register := func(r sdt.Register) string {
		name := strings.TrimPrefix(r.Full, "%r")
		if name[0] >= '0' && name[0] <= '9' {
			return "r" + name
		}
		return name
	}
	sign := "unsigned"
	if a.Signed {
		sign = "signed  "
	}
	text := ""
	switch {
	case o.Kind == sdt.OperandConstant:
		text = fmt.Sprint(o.Displacement)
	case o.Kind == sdt.OperandRegister:
		text = register(o.Base)
	case o.Symbol != "":
		text = "unrecognized argument format, flags 14" // TestTplist: bcc reads it, but does not print it
	default:
		direction, distance := "+", o.Displacement
		if distance < 0 {
			direction, distance = "-", -distance
		}
		index := ""
		if o.Index.Name != "" {
			index = " + " + register(o.Index)
			if o.Scale > 1 {
				index = fmt.Sprintf(" + (%s * %d)", register(o.Index), o.Scale)
			}
		}
		text = fmt.Sprintf("*(%s %s %d%s)", register(o.Base), direction, distance, index)
	}
	return fmt.Sprintf("%d %s bytes @ %s", a.Size, sign, text)
}

// TestTplist: bcc reads the same out of every note. It lists the sites of one name together.
func TestTplist(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("bcc reads the notes of the machine that it is built for")
	}
	tplist := testenv.NeedsTool(t, "tplist-bpfcc", "bpfcc-tools")
	eachExcerpt(t, "amd64-*", func(t *testing.T, _ *excerpt, file []byte, probes []sdt.Site) {
		path := filepath.Join(t.TempDir(), "file.so")
		require.NoError(t, os.WriteFile(path, file, 0o755))
		out, err := exec.Command(tplist, "-vv", "-l", path).Output()
		require.NoError(t, err)
		require.Equal(t, wantTplist(probes), sitesOfTplist(string(out)))
	})
}

// wantTplist writes each site on a line, in order.
func wantTplist(probes []sdt.Site) (sites []string) {
	for _, p := range probes {
		line := fmt.Sprintf("%s:%s %#x %#x", p.Provider, p.Name, p.Semaphore, p.Address)
		for _, a := range p.Args {
			line += " | " + asTplist(a)
		}
		sites = append(sites, line)
	}
	slices.Sort(sites)
	return sites
}

// sitesOfTplist reads tplist's output.
func sitesOfTplist(out string) (sites []string) {
	name := ""
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		fields := strings.Fields(line)
		switch {
		case strings.Contains(line, " [sema "):
			name = fields[0] + " " + strings.TrimSuffix(fields[len(fields)-1], "]")
		case len(fields) > 2 && fields[0] == "location":
			sites = append(sites, name+" "+fields[len(fields)-1])
		case len(fields) > 2 && fields[0] == "argument":
			_, text, _ := strings.Cut(line, fields[1]+" ")
			sites[len(sites)-1] += " | " + text
		}
	}
	slices.Sort(sites)
	return sites
}
