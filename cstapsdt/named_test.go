//go:build linux && cgo && !stapsdt_nocgo

package cstapsdt

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/dwarf"
	"github.com/go-stapsdt/stapsdt/internal/image"

	"github.com/stretchr/testify/require"
)

// goTypes are the types in Go with the names of ArgType_t's values.
var goTypes = map[int8]reflect.Type{
	1: reflect.TypeFor[uint8](), -1: reflect.TypeFor[int8](), 2: reflect.TypeFor[uint16](), -2: reflect.TypeFor[int16](),
	4: reflect.TypeFor[uint32](), -4: reflect.TypeFor[int32](), 8: reflect.TypeFor[uint64](), -8: reflect.TypeFor[int64](),
	16: reflect.TypeFor[string](),
}

// named is a probe whose arguments have names, if they are not nil.
type named struct {
	name  string
	types []int8
	names []string
}

// random makes a provider's name and its probes from random numbers. The names have any byte that a C string can hold.
func random(r *rand.Rand) (provider string, probes []named) {
	types := []int8{1, -1, 2, -2, 4, -4, 8, -8}
	name := func() string {
		b := make([]byte, 1+r.IntN(1+r.IntN(254)))
		for i := range b {
			b[i] = byte(1 + r.IntN(255))
		}
		return string(b)
	}
	defined := map[string]named{}
	for range r.IntN(1 + r.IntN(40)) {
		n := name()
		p, again := defined[n]
		if !again {
			p = named{n, make([]int8, r.IntN(image.MaxArgs+1)), []string{}}
			for i := range p.types {
				p.types[i] = types[r.IntN(len(types))]
				p.names = append(p.names, fmt.Sprintf("x%d_%d", i, r.IntN(4)))
			}
			defined[n] = p
		}
		if r.IntN(3) == 0 {
			p.names = nil
		}
		probes = append(probes, p)
	}
	return name(), probes
}

// spec returns what Go's builder knows of the probes.
func spec(provider string, probes []named) image.Spec {
	names := map[string][]string{}
	for _, p := range probes {
		if p.names != nil {
			names[p.name] = p.names
		}
	}
	s := image.Spec{Provider: provider}
	for _, p := range probes {
		shown := image.Probe{Name: p.name}
		for _, size := range p.types {
			shown.Args = append(shown.Args, min(size, 8))
		}
		for i, name := range names[p.name] {
			shown.Params = append(shown.Params, image.Param{Name: name, Type: goTypes[p.types[i]]})
		}
		s.Probes = append(s.Probes, shown)
	}
	return s
}

// requireSameImages requires that C builds the same bytes as Go for each architecture and each nop, of probes without names and of those with
// names, which it describes, and that it lays out Go's description as Go does.
func requireSameImages(t *testing.T, provider string, probes []named) {
	t.Helper()
	needLibelf(t)
	c, err := NewProvider(provider)
	require.NoError(t, err)
	defer c.Close()
	plain, err := NewProvider(provider)
	require.NoError(t, err)
	defer plain.Close()
	spec := spec(provider, probes)
	bare := image.Spec{Provider: provider}
	for i, p := range probes {
		bare.Probes = append(bare.Probes, image.Probe{Name: p.name, Args: spec.Probes[i].Args})
		require.NoError(t, plain.AddProbe(p.name, spec.Probes[i].Args))
		if p.names == nil {
			require.NoError(t, c.AddProbe(p.name, p.types))
			continue
		}
		require.NoError(t, c.addNamedProbe(p.name, p.names, p.types))
	}
	for i := range image.Arches() {
		arch := &image.Arches()[i]
		for j := range arch.Nops {
			nop := &arch.Nops[j]
			var debug *Debug
			d := dwarf.Describe(arch, nop, spec)
			if d != nil {
				text, err := image.Text(arch, spec)
				require.NoError(t, err)
				debug = &Debug{d(text), text}
			}
			want, err := image.Build(arch, nop, spec, d)
			require.NoError(t, err)
			got, text, err := c.Image(arch.Name, nop.Name, nil)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want.Bytes, got), "%s %s: C's own: %+v", arch.Name, nop.Name, probes)
			if len(probes) > 0 {
				require.Equal(t, want.Text, text)
			}
			got, _, err = plain.Image(arch.Name, nop.Name, debug)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want.Bytes, got), "%s %s: Go's in C's image: %+v", arch.Name, nop.Name, probes)
			want, err = image.Build(arch, nop, bare, nil)
			require.NoError(t, err)
			got, _, err = plain.Image(arch.Name, nop.Name, nil)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want.Bytes, got), "%s %s: without names: %+v", arch.Name, nop.Name, probes)
		}
	}
}

func TestImagesAreEqual(t *testing.T) {
	requireSameImages(t, "none", nil)
	requireSameImages(t, "empty", []named{{"p", []int8{}, []string{}}})
	requireSameImages(t, "one", []named{{"p", []int8{16, -4}, []string{"path", "status"}}})
	all := named{"all", []int8{1, -1, 2, -2, 4, -4, 8, -8, 16, 1, 16, -8}, []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}}
	requireSameImages(t, "all", []named{all, {"unnamed", []int8{4}, nil}, {"p", []int8{-8}, []string{"stapsdt"}}, all})
	requireSameImages(t, "shared", []named{{"p", []int8{1}, nil}, {"p", []int8{1}, []string{"a"}}, {"p", []int8{1}, nil}})
	var many []named
	for i := range 300 {
		many = append(many, named{fmt.Sprint("probe", i), []int8{8, 16}, []string{fmt.Sprint("a", i), fmt.Sprint("b", i%7)}})
	}
	requireSameImages(t, "many", many)
	requireSameImages(t, "unnamed", slices.Repeat([]named{{"probe", []int8{8, -8}, nil}}, 5000))

	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 1000 {
		provider, probes := random(r)
		if !t.Run("", func(t *testing.T) { requireSameImages(t, provider, probes) }) {
			t.Fatalf("seed %d, case %d", seed, i)
		}
	}
}

// TestDebugSections: C lays out any debug sections as Go does.
func TestDebugSections(t *testing.T) {
	needLibelf(t)
	c, err := NewProvider("provider")
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.AddProbe("p", nil))
	for _, sections := range []image.Debug{{[]byte("info"), []byte("abbrev"), []byte("str"), []byte("aranges"), []byte("line")}, {}} {
		for i := range image.Arches() {
			arch := &image.Arches()[i]
			want, err := image.Build(arch, &arch.Nops[0], image.Spec{Provider: "provider", Probes: []image.Probe{{Name: "p"}}}, func(uint64) image.Debug { return sections })
			require.NoError(t, err)
			got, _, err := c.Image(arch.Name, arch.Nops[0].Name, &Debug{sections, want.Text})
			require.NoError(t, err)
			require.Equal(t, want.Bytes, got, arch.Name)
			_, _, err = c.Image(arch.Name, arch.Nops[0].Name, &Debug{sections, want.Text + 16})
			require.ErrorContains(t, err, "the sites are described at")
		}
	}
}
