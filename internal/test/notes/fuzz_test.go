//go:build linux

package notes

import (
	"bytes"
	"debug/elf"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/dwarf"
	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

// builder makes an image, and says where its first site is. Where there are names of arguments, a type of 16 is a string.
type builder func(a *image.Arch, s *image.Nop, provider string, probes []image.Probe, names [][]string) ([]byte, uint64, error)

// builders are those there are in this build: C's is added where there is cgo.
var builders = map[string]builder{"Go": buildGo}

func buildGo(a *image.Arch, s *image.Nop, provider string, probes []image.Probe, names [][]string) ([]byte, uint64, error) {
	spec, describe := specOf(a, s, provider, probes, names)
	im, err := image.Build(a, s, spec, describe)
	if err != nil {
		return nil, 0, err
	}
	return im.Bytes, im.Text, nil
}

// specOf returns what a builder is told of the probes, and Go's description of their names, or nil without names.
func specOf(a *image.Arch, s *image.Nop, provider string, probes []image.Probe, names [][]string) (spec image.Spec, describe image.Describe) {
	spec = image.Spec{Provider: provider, Probes: probes}
	if names != nil {
		spec.Probes = make([]image.Probe, len(probes))
		for i, p := range probes {
			shown := &spec.Probes[i]
			shown.Name = p.Name
			for j, name := range names[i] {
				shown.Args = append(shown.Args, min(p.Args[j], 8))
				shown.Params = append(shown.Params, image.Param{Name: name, Type: goTypes[p.Args[j]]})
			}
		}
		describe = dwarf.Describe(a, s, spec)
	}
	return spec, describe
}

// goTypes are the types of Go with the names of libstapsdt's.
var goTypes = map[int8]reflect.Type{
	1: reflect.TypeFor[uint8](), -1: reflect.TypeFor[int8](), 2: reflect.TypeFor[uint16](), -2: reflect.TypeFor[int16](),
	4: reflect.TypeFor[uint32](), -4: reflect.TypeFor[int32](), 8: reflect.TypeFor[uint64](), -8: reflect.TypeFor[int64](),
	16: reflect.TypeFor[string](),
}

var sizes = []int8{1, -1, 2, -2, 4, -4, 8, -8}

// definition makes probes of names, one a line, and of lists of arguments, each
// of which is a byte for its length and one for each argument.
func definition(names string, lists []byte) (probes []image.Probe) {
	args := map[string][]int8{}
	for _, name := range strings.Split(names, "\n") {
		if name == "" {
			continue
		}
		if _, again := args[name]; !again {
			args[name] = nil
			if len(lists) > 0 {
				n := min(int(lists[0])%(image.MaxArgs+1), len(lists)-1)
				for _, b := range lists[1 : 1+n] {
					args[name] = append(args[name], sizes[int(b)%len(sizes)])
				}
				lists = lists[1+n:]
			}
		}
		probes = append(probes, image.Probe{Name: name, Args: args[name]})
	}
	return probes
}

// operands are where the arguments are, by the platforms' C conventions, of those
// architectures where that does not depend on the argument's size.
var operands = map[string][]string{
	"amd64":   {"%rdi", "%rsi", "%rdx", "%rcx", "%r8", "%r9", "8(%rsp)", "16(%rsp)", "24(%rsp)", "32(%rsp)", "40(%rsp)", "48(%rsp)"},
	"arm64":   {"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "[sp, 0]", "[sp, 8]", "[sp, 16]", "[sp, 24]"},
	"riscv64": {"a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "0(sp)", "8(sp)", "16(sp)", "24(sp)"},
}

// nameArgs returns names for the arguments of probes, some of which become strings. Some probes share the names of their arguments.
func nameArgs(probes []image.Probe, lists []byte) [][]string {
	names := make([][]string, len(probes))
	for i, p := range probes {
		for j := range p.Args {
			if lists[j%len(lists)]%4 == 1 {
				p.Args[j] = 16 // of all probes of the name, which share the list
			}
			names[i] = append(names[i], fmt.Sprintf("x%d_%d", len(p.Name)%3, j))
		}
	}
	return names
}

// FuzzNotes builds images of any names and arguments, with each builder, and
// reads them back by two readers that know nothing of them. With names of arguments, the images of all builders are
// the same, and a reader finds the names and types.
func FuzzNotes(f *testing.F) {
	f.Add("provider", "probe\nsecond\nprobe", []byte{3, 0, 5, 7, 0}, uint8(0))
	f.Add("stapsdt", "stapsdt\n/", []byte{12, 8, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 2, 1, 8}, uint8(1))
	for name, build := range builders {
		a := &image.Arches()[0]
		_, _, err := build(a, &a.Nops[0], "provider", definition("probe", nil), nil)
		testenv.Needs(f, "a library with libelf (package libelf-dev) in "+name, err)
	}
	f.Fuzz(func(t *testing.T, provider, names string, lists []byte, target uint8) {
		if provider == "" || strings.Contains(provider+names, "\x00") {
			t.Skip()
		}
		probes := definition(names, lists)
		a := &image.Arches()[int(target)%len(image.Arches())]
		s := &a.Nops[int(target)/len(image.Arches())%len(a.Nops)]
		for name, build := range builders {
			built, text, err := build(a, s, provider, probes, nil)
			require.NoError(t, err, name)
			requireNotes(t, built, text, a, provider, probes)
			requireELF(t, built, text, a, s, probes)
		}
		argNames := nameArgs(probes, lists)
		want, _, err := buildGo(a, s, provider, probes, argNames)
		require.NoError(t, err)
		for name, build := range builders {
			built, _, err := build(a, s, provider, probes, argNames)
			require.NoError(t, err, name)
			require.True(t, bytes.Equal(want, built), name)
		}
		if len(probes) > 0 {
			requireNames(t, want, a, probes, argNames)
		}
	})
}

// requireNotes reads the image as a tracer does.
func requireNotes(t *testing.T, built []byte, text uint64, a *image.Arch, provider string, probes []image.Probe) {
	t.Helper()
	notes, err := sdt.Read(bytes.NewReader(built))
	if len(probes) == 0 {
		require.ErrorIs(t, err, sdt.ErrNoProbes)
		return
	}
	require.NoError(t, err)
	require.Len(t, notes, len(probes))
	for i, p := range probes {
		n := notes[i]
		require.Equal(t, provider, n.Provider)
		require.Equal(t, p.Name, n.Name)
		require.Equal(t, text+uint64(i)*image.SlotSize, n.Offset)
		require.Zero(t, n.Semaphore)
		require.Len(t, n.Args, len(p.Args))
		places := map[string]bool{}
		for j, size := range p.Args {
			arg := n.Args[j]
			require.NoError(t, arg.Err)
			require.EqualValues(t, max(size, -size), arg.Size, "%d, %d", i, j)
			require.Equal(t, size < 0, arg.Signed, "%d, %d", i, j)
			place := arg.Operand.Text
			if known := operands[a.Name]; known != nil {
				require.Equal(t, known[j], place, "%d, %d", i, j)
			}
			require.False(t, places[place], "two arguments in %s", place)
			places[place] = true
		}
	}
}

// requireELF reads the image as a linker does.
func requireELF(t *testing.T, built []byte, text uint64, a *image.Arch, s *image.Nop, probes []image.Probe) {
	t.Helper()
	file, err := elf.NewFile(bytes.NewReader(built))
	require.NoError(t, err)
	symbols, err := file.DynamicSymbols()
	if len(probes) > 0 {
		require.NoError(t, err)
	}
	require.Len(t, symbols, len(probes))
	for i, symbol := range symbols {
		require.Equal(t, probes[i].Name, symbol.Name)
		require.Equal(t, s.Code+a.Ret, string(built[text+uint64(i)*image.SlotSize:][:symbol.Size]))
	}
	var order []string
	var end uint64
	for _, section := range file.Sections[1:] {
		require.GreaterOrEqual(t, section.Offset, end, section.Name)
		end = section.Offset + section.FileSize
		order = append(order, section.Name)
	}
	require.True(t, slices.Equal(order, []string{".note.gnu.build-id", ".hash", ".dynsym", ".dynstr", ".text", ".stapsdt.base", ".dynamic", ".note.stapsdt", ".shstrtab"}), "%v", order)
	require.LessOrEqual(t, end, uint64(len(built)))
}

// requireNames reads the names and types of arguments.
func requireNames(t *testing.T, built []byte, a *image.Arch, probes []image.Probe, names [][]string) {
	t.Helper()
	file := bytes.NewReader(built)
	notes, err := sdt.Read(file)
	require.NoError(t, err)
	require.NoError(t, sdt.ReadTypes(file, notes))
	require.Len(t, notes, len(probes))
	for i, p := range probes {
		for j, arg := range notes[i].Args {
			if a.DWARF == nil {
				require.Empty(t, arg.Name)
				continue
			}
			require.Equal(t, names[i][j], arg.Name)
			if p.Args[j] == 16 {
				require.True(t, arg.Type.IsString())
				continue
			}
			require.Equal(t, goTypes[p.Args[j]].Name(), arg.Type.Name)
		}
	}
}
