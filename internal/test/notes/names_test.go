//go:build linux

package notes

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/dwarf"
	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

// namedBuilder makes an image whose probes have names of arguments. A type of 16 is a
// string.
type namedBuilder func(a *image.Arch, s *image.Nop, provider string, probes []image.Probe, names [][]string) ([]byte, error)

// namedBuilders are those there are in this build.
var namedBuilders = map[string]namedBuilder{"Go": buildNamed}

// goTypes are the types of Go with the names of libstapsdt's.
var goTypes = map[int8]reflect.Type{
	1: reflect.TypeFor[uint8](), -1: reflect.TypeFor[int8](), 2: reflect.TypeFor[uint16](), -2: reflect.TypeFor[int16](),
	4: reflect.TypeFor[uint32](), -4: reflect.TypeFor[int32](), 8: reflect.TypeFor[uint64](), -8: reflect.TypeFor[int64](),
	16: reflect.TypeFor[string](),
}

func buildNamed(a *image.Arch, s *image.Nop, provider string, probes []image.Probe, names [][]string) ([]byte, error) {
	spec := image.Spec{Provider: provider, Probes: make([]image.Probe, len(probes))}
	for i, p := range probes {
		shown := &spec.Probes[i]
		shown.Name = p.Name
		for _, t := range p.Args {
			shown.Args = append(shown.Args, min(t, 8))
		}
		for j, name := range names[i] {
			shown.Params = append(shown.Params, image.Param{Name: name, Type: goTypes[p.Args[j]]})
		}
	}
	im, err := image.Build(a, s, spec, dwarf.Describe(a, s, spec))
	if err != nil {
		return nil, err
	}
	return im.Bytes, nil
}

// FuzzNames builds images whose probes have names of arguments, with each builder. They are
// the same, and a reader that knows nothing of the builders finds the names and types.
func FuzzNames(f *testing.F) {
	f.Add("provider", "probe\nsecond\nprobe", []byte{3, 0, 5, 7, 0}, "path", uint8(0))
	f.Add("stapsdt", "stapsdt\n/", []byte{12, 8, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 2, 1, 8}, "", uint8(1))
	f.Fuzz(func(t *testing.T, provider, probeNames string, lists []byte, prefix string, target uint8) {
		if provider == "" || strings.Contains(provider+probeNames, "\x00") {
			t.Skip()
		}
		prefix = identifier(prefix)
		probes := definition(probeNames, lists)
		named := make([][]string, len(probes))
		for i, p := range probes {
			for j := range p.Args {
				if lists[j%len(lists)]%4 == 1 {
					p.Args[j] = 16 // of all probes of the name, which share the list
				}
				// Some probes share the names of their arguments.
				named[i] = append(named[i], fmt.Sprintf("%s%d_%d", prefix, len(p.Name)%3, j))
			}
		}
		a := &image.Arches()[int(target)%len(image.Arches())]
		s := &a.Nops[int(target)/len(image.Arches())%len(a.Nops)]
		want, err := buildNamed(a, s, provider, probes, named)
		require.NoError(t, err)
		for name, build := range namedBuilders {
			built, err := build(a, s, provider, probes, named)
			require.NoError(t, err, name)
			require.True(t, bytes.Equal(want, built), name)
		}
		if len(probes) > 0 {
			requireNames(t, want, a, probes, named)
		}
	})
}

// identifier returns a short name that begins like s, as far as that is possible.
func identifier(s string) string {
	name := []byte("x")
	for _, c := range []byte(s) {
		if c|0x20 >= 'a' && c|0x20 <= 'z' && len(name) < 20 {
			name = append(name, c)
		}
	}
	return string(name)
}

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
