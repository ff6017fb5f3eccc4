package image

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// forEachTarget runs a test for each architecture and each kind of site.
func forEachTarget(t *testing.T, test func(t *testing.T, a *Arch, s *Site)) {
	for i := range arches {
		for j := range arches[i].Sites {
			a, s := &arches[i], &arches[i].Sites[j]
			t.Run(a.Name+"/"+s.Name, func(t *testing.T) { test(t, a, s) })
		}
	}
}

// sample has every type, every number of arguments' extremes, and a name twice.
var sample = []Probe{
	{"none", nil},
	{"all", []int8{1, -1, 2, -2, 4, -4, 8, -8, 8, -4, 1, -2}},
	{"again", []int8{8}},
	{"again", []int8{8}},
}

func TestReadByAnother(t *testing.T) {
	forEachTarget(t, func(t *testing.T, a *Arch, s *Site) {
		im, err := Build(a, s, "provider", sample)
		require.NoError(t, err)
		f, err := elf.NewFile(bytes.NewReader(im.Bytes))
		require.NoError(t, err)
		require.Equal(t, elf.ET_DYN, f.Type)
		require.Equal(t, elf.Machine(a.Machine), f.Machine)

		// The sites: a nop and a return, named, at the trace points.
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
			require.Equal(t, s.Nop+a.Ret, string(site))
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
	a := &arches[0]
	im, err := Build(a, &a.Sites[0], "p", probes)
	require.NoError(t, err)
	f, err := elf.NewFile(bytes.NewReader(im.Bytes))
	require.NoError(t, err)
	symbols, err := f.DynamicSymbols()
	require.NoError(t, err)
	table, err := f.Section(".hash").Data()
	require.NoError(t, err)
	word := func(i uint32) uint32 { return binary.LittleEndian.Uint32(table[4*i:]) }
	buckets, chains := word(0), word(1)
	require.EqualValues(t, 1001, chains)
	for i, p := range probes {
		j := word(2 + elfHash(p.Name)%buckets)
		for ; j != 0 && symbols[j-1].Name != p.Name; j = word(2 + buckets + j) {
		}
		require.EqualValues(t, i+1, j)
	}
	require.EqualValues(t, 0x077905a6, elfHash("printf"), "the System V ABI's example")
}

// golden holds the build ids of the sample, which are a hash of all its bytes: a
// change of them changes the names of files, and is not to be made unawares.
var golden = map[string]string{
	"nop4":  "6e10a458a7ad9d7dc298ba6a97805406",
	"nop10": "0a2f5bf3bafd2a8d3af64a9e4287ee45",
	"nop5":  "ebe2e7eab8f5eaa1fa6ebb9d72164bdd",
	"nop1":  "2f4abb669aafcffbe8acf071a6ae695d",
}

func TestGolden(t *testing.T) {
	forEachTarget(t, func(t *testing.T, a *Arch, s *Site) {
		im, err := Build(a, s, "golden", sample)
		require.NoError(t, err)
		require.Equal(t, golden[s.Name], fmt.Sprintf("%x", im.BuildID()), "the image has changed")
	})
}

func TestBuildIDCoversEverything(t *testing.T) {
	seen := map[[16]byte]string{}
	add := func(what string, a *Arch, s *Site, provider string, probes []Probe) {
		im, err := Build(a, s, provider, probes)
		require.NoError(t, err)
		require.Empty(t, seen[im.BuildID()], what)
		seen[im.BuildID()] = what
	}
	forEachTarget(t, func(t *testing.T, a *Arch, s *Site) { add(t.Name(), a, s, "p", sample) })
	a := &arches[0]
	s := &a.Sites[0]
	add("no probes", a, s, "p", nil)
	add("another provider", a, s, "q", sample)
	add("another order", a, s, "p", []Probe{sample[1], sample[0]})
	add("another type", a, s, "p", []Probe{{"none", []int8{1}}})
	add("another sign", a, s, "p", []Probe{{"none", []int8{-1}}})
}

func FuzzBuild(f *testing.F) {
	f.Add("provider", "probe", "second", uint8(3))
	f.Fuzz(func(t *testing.T, provider, first, second string, n uint8) {
		if strings.Contains(provider+first+second, "\x00") {
			t.Skip()
		}
		args := make([]int8, n%(MaxArgs+1))
		for i := range args {
			args[i] = []int8{1, -1, 2, -2, 4, -4, 8, -8}[(int(n)+i)%8]
		}
		a := &arches[int(n)%len(arches)]
		im, err := Build(a, &a.Sites[0], provider, []Probe{{first, args}, {second, nil}})
		require.NoError(t, err)
		file, err := elf.NewFile(bytes.NewReader(im.Bytes))
		require.NoError(t, err)
		symbols, err := file.DynamicSymbols()
		require.NoError(t, err)
		require.Equal(t, first, symbols[0].Name)
		require.Equal(t, second, symbols[1].Name)
	})
}
