package image

import (
	"bytes"
	"debug/elf"
	"fmt"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

// forEachTarget runs a test for each architecture and each kind of site.
func forEachTarget(t *testing.T, test func(t *testing.T, a *Arch, s *Nop)) {
	for i := range arches {
		for j := range arches[i].Nops {
			a, s := &arches[i], &arches[i].Nops[j]
			t.Run(a.Name+"/"+s.Name, func(t *testing.T) { test(t, a, s) })
		}
	}
}

// sample has every type, every number of arguments' extremes, and a name twice.
var sample = []Probe{
	{Name: "none"},
	{Name: "all", Args: []int8{1, -1, 2, -2, 4, -4, 8, -8, 8, -4, 1, -2}},
	{Name: "again", Args: []int8{8}},
	{Name: "again", Args: []int8{8}},
}

func TestReadByAnother(t *testing.T) {
	forEachTarget(t, func(t *testing.T, a *Arch, s *Nop) {
		im, err := Build(a, s, Spec{"provider", sample}, nil)
		require.NoError(t, err)
		f, err := elf.NewFile(bytes.NewReader(im.Bytes))
		require.NoError(t, err)
		require.Equal(t, elf.ET_DYN, f.Type)
		require.Equal(t, elf.Machine(a.Machine), f.Machine)

		// The sites: a nop and a return, named.
		symbols, err := f.DynamicSymbols()
		require.NoError(t, err)
		require.Len(t, symbols, len(sample))
		text := f.Section(".text")
		code, err := text.Data()
		require.NoError(t, err)
		for i, symbol := range symbols {
			require.Equal(t, sample[i].Name, symbol.Name)
			require.Equal(t, elf.STT_FUNC, elf.ST_TYPE(symbol.Info))
			require.Equal(t, im.Text+uint64(i)*SlotSize, symbol.Value)
			site := code[symbol.Value-text.Addr:][:symbol.Size]
			require.Equal(t, s.Code+a.Ret, string(site))
		}
		require.Equal(t, len(sample), im.Sites)

		// Nothing is writable and executable, and the stack is neither.
		for _, p := range f.Progs {
			require.NotEqual(t, elf.PF_W|elf.PF_X, p.Flags&(elf.PF_W|elf.PF_X), "%v", p)
			if p.Type == elf.PT_LOAD {
				require.Equal(t, p.Off%a.Page, p.Vaddr%a.Page)
			}
		}

		// The base is one byte, in the segment of the text.
		base := f.Section(".stapsdt.base")
		require.EqualValues(t, 1, base.Size)
		require.Less(t, base.Addr, f.Progs[0].Vaddr+f.Progs[0].Filesz)
		notes := f.Section(".note.stapsdt")
		require.Zero(t, notes.Flags&elf.SHF_ALLOC)
		require.Greater(t, notes.Offset, text.Offset)

		libs, err := f.ImportedLibraries()
		require.NoError(t, err)
		require.Empty(t, libs)
	})
}

// TestHash finds every name the way the dynamic loader does.
func TestHash(t *testing.T) {
	probes := make([]Probe, 1000)
	for i := range probes {
		probes[i].Name = fmt.Sprint("probe", i)
	}
	forEachTarget(t, func(t *testing.T, a *Arch, s *Nop) {
		im, err := Build(a, s, Spec{"p", probes}, nil)
		require.NoError(t, err)
		f, err := elf.NewFile(bytes.NewReader(im.Bytes))
		require.NoError(t, err)
		symbols, err := f.DynamicSymbols()
		require.NoError(t, err)
		section := f.Section(".hash")
		table, err := section.Data()
		require.NoError(t, err)
		word := func(i uint32) uint32 {
			if entry := table[uint64(i)*section.Entsize:]; section.Entsize == 4 {
				return f.ByteOrder.Uint32(entry)
			}
			require.Equal(t, "s390x", a.Name, "no other has entries of 8 bytes")
			return uint32(f.ByteOrder.Uint64(table[8*i:]))
		}
		buckets, chains := word(0), word(1)
		require.EqualValues(t, 1001, chains)
		for i, p := range probes {
			j := word(2 + elfHash(p.Name)%buckets)
			for ; j != 0 && symbols[j-1].Name != p.Name; j = word(2 + buckets + j) {
			}
			require.EqualValues(t, i+1, j)
		}
	})
	require.EqualValues(t, 0x077905a6, elfHash("printf"), "the System V ABI's example")
}

// arguments is what the notes say of the sample's probe "all": by the register
// and stack conventions of each architecture, in what SystemTap, libbpf and bcc
// read there.
var arguments = map[string]string{
	"amd64":   "1@%rdi -1@%rsi 2@%rdx -2@%rcx 4@%r8 -4@%r9 8@8(%rsp) -8@16(%rsp) 8@24(%rsp) -4@32(%rsp) 1@40(%rsp) -2@48(%rsp)",
	"arm64":   "1@x0 -1@x1 2@x2 -2@x3 4@x4 -4@x5 8@x6 -8@x7 8@[sp, 0] -4@[sp, 8] 1@[sp, 16] -2@[sp, 24]",
	"riscv64": "1@a0 -1@a1 2@a2 -2@a3 4@a4 -4@a5 8@a6 -8@a7 8@0(sp) -4@8(sp) 1@16(sp) -2@24(sp)",
	"s390x":   "1@%r2 -1@%r3 2@%r4 -2@%r5 4@%r6 -4@164(%r15) 8@168(%r15) -8@176(%r15) 8@184(%r15) -4@196(%r15) 1@207(%r15) -2@214(%r15)",
	"ppc64le": "1@3 -1@4 2@5 -2@6 4@7 -4@8 8@9 -8@10 8@96(1) -4@104(1) 1@112(1) -2@120(1)",
	"386":     "1@4(%esp) -1@12(%esp) 2@20(%esp) -2@28(%esp) 4@36(%esp) -4@44(%esp) 8@52(%esp) -8@60(%esp) 8@68(%esp) -4@76(%esp) 1@84(%esp) -2@92(%esp)",
	"arm":     "1@[sp, #0] -1@[sp, #8] 2@[sp, #16] -2@[sp, #24] 4@[sp, #32] -4@[sp, #40] 8@[sp, #48] -8@[sp, #56] 8@[sp, #64] -4@[sp, #72] 1@[sp, #80] -2@[sp, #88]",
}

func TestNotes(t *testing.T) {
	forEachTarget(t, func(t *testing.T, a *Arch, s *Nop) {
		im, err := Build(a, s, Spec{"provider", sample}, nil)
		require.NoError(t, err)
		sites, err := sdt.Read(bytes.NewReader(im.Bytes))
		require.NoError(t, err)
		require.Len(t, sites, len(sample))
		for i, site := range sites {
			require.Equal(t, "provider", site.Provider)
			require.Equal(t, sample[i].Name, site.Name)
			require.Equal(t, im.Text+SlotSize*uint64(i), site.Address)
			require.Equal(t, site.Address, site.Offset, "the note has another base")
			require.Zero(t, site.Semaphore)
			if site.Name == "all" {
				var args []string
				for _, arg := range site.Args {
					require.NoError(t, arg.Err)
					require.NotEqual(t, sdt.OperandConstant, arg.Operand.Kind)
					args = append(args, arg.String())
				}
				require.Equal(t, arguments[a.Name], strings.Join(args, " "))
			}
		}
	})
}

// golden holds the build ids of the sample, which are a hash of all its bytes: a
// change of them changes the names of files, and is not to be made unawares.
var golden = map[string]string{
	"amd64/nop1":  "6222afd88a8daa0326b805c686e62afd",
	"amd64/nop5":  "05b9690fb76a0750ca62ec66df895fed",
	"amd64/nop10": "1d56c42dfed982964c93d8be9d4054c5",
	"arm64/nop4":  "da974ef193ca01e163e7bc6da5a4a9d1",

	"riscv64/nop2": "edac59b26d94c1402ba3153470f9739d",
	"s390x/nop4":   "491710ee588fd551f46090549eee2c5a",
	"ppc64le/nop4": "9285af309b714663cfb013fb65ec3e68",
	"386/nop1":     "ae11dcdc2d1faf5fa343549c2b993e00",
	"arm/nop4":     "906fdf6ccf47c24d6f7e9a56364b024f",
}

func TestGolden(t *testing.T) {
	forEachTarget(t, func(t *testing.T, a *Arch, s *Nop) {
		im, err := Build(a, s, Spec{"golden", sample}, nil)
		require.NoError(t, err)
		require.Equal(t, golden[a.Name+"/"+s.Name], fmt.Sprintf("%x", im.BuildID()), "the image has changed")
	})
}

// TestSlot: between the nop with its return and the entry, a slot has fill bytes only.
func TestSlot(t *testing.T) {
	forEachTarget(t, func(t *testing.T, a *Arch, nop *Nop) {
		slot := a.Slot(nop)
		rest, ok := strings.CutPrefix(string(slot[:]), nop.Code+a.Ret)
		require.True(t, ok)
		rest, ok = strings.CutSuffix(rest, a.Entry)
		require.True(t, ok)
		require.Empty(t, strings.Trim(rest, string([]byte{a.Fill})))
		require.NotEmpty(t, a.Entry)
	})
}

func TestBuildIDCoversEverything(t *testing.T) {
	seen := map[[16]byte]string{}
	add := func(what string, a *Arch, s *Nop, provider string, probes []Probe) {
		im, err := Build(a, s, Spec{provider, probes}, nil)
		require.NoError(t, err)
		require.Empty(t, seen[im.BuildID()], what)
		seen[im.BuildID()] = what
	}
	forEachTarget(t, func(t *testing.T, a *Arch, s *Nop) { add(t.Name(), a, s, "p", sample) })
	a := &arches[0]
	s := &a.Nops[0]
	add("no probes", a, s, "p", nil)
	add("another provider", a, s, "q", sample)
	add("another order", a, s, "p", []Probe{sample[1], sample[0]})
	add("another type", a, s, "p", []Probe{{Name: "none", Args: []int8{1}}})
	add("another sign", a, s, "p", []Probe{{Name: "none", Args: []int8{-1}}})
}

// TestDebugSections: the description of the probes moves no other section, and is not
// loaded.
func TestDebugSections(t *testing.T) {
	names := []string{".debug_info", ".debug_abbrev", ".debug_str", ".debug_aranges", ".debug_line"}
	debug := Debug{[]byte("info"), []byte("abbrev"), {}, []byte("aranges"), []byte("l")}
	forEachTarget(t, func(t *testing.T, a *Arch, s *Nop) {
		var at uint64
		with, err := Build(a, s, Spec{"provider", sample}, func(text uint64) Debug { at = text; return debug })
		require.NoError(t, err)
		require.Equal(t, with.Text, at)
		without, err := Build(a, s, Spec{"provider", sample}, nil)
		require.NoError(t, err)
		require.Equal(t, without.Text, with.Text)
		text, err := Text(a, Spec{"provider", sample})
		require.NoError(t, err)
		require.Equal(t, with.Text, text)
		require.NotEqual(t, without.BuildID(), with.BuildID())

		f, err := elf.NewFile(bytes.NewReader(with.Bytes))
		require.NoError(t, err)
		bare, err := elf.NewFile(bytes.NewReader(without.Bytes))
		require.NoError(t, err)
		require.Equal(t, bare.Progs[0].ProgHeader, f.Progs[0].ProgHeader)
		last := len(bare.Sections) - 1
		for i, s := range bare.Sections[:last] {
			require.Equal(t, s.SectionHeader, f.Sections[i].SectionHeader)
		}
		end := f.Section(".note.stapsdt").Offset + f.Section(".note.stapsdt").Size
		for i, name := range names {
			s := f.Sections[last+i]
			require.Equal(t, name, s.Name)
			require.Equal(t, elf.SHT_PROGBITS, s.Type)
			var flags elf.SectionFlag
			var entry uint64
			if name == ".debug_str" { // as eu-elflint wants it
				flags, entry = elf.SHF_MERGE|elf.SHF_STRINGS, 1
			}
			require.Equal(t, flags, s.Flags)
			require.Equal(t, entry, s.Entsize)
			require.Zero(t, s.Addr)
			require.EqualValues(t, 1, s.Addralign)
			require.Equal(t, end, s.Offset, "they follow each other")
			end += s.Size
			content, err := s.Data()
			require.NoError(t, err)
			require.Equal(t, string(debug[i]), string(content))
		}
		require.Equal(t, ".shstrtab", f.Sections[last+len(names)].Name)
		require.Len(t, f.Sections, last+len(names)+1)
	})
}
