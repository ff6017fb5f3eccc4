//go:build linux && !stapsdt_noload

package stapsdt

import (
	"bytes"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

// TestDescribe reads the names and types of arguments back from images.
func TestDescribe(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("images with descriptions are those of 64-bit architectures, whose pointers have 8 bytes")
	}
	type userID uint32
	p := newProvider(t, "described")
	NewProbe6[string, []byte, bool, time.Duration, userID, unsafe.Pointer](p, "typed", "path", "body", "ok", "elapsed", "user", "raw")
	NewProbe4[string, userID, float64, []byte](p, "unnamed")
	_, err := p.AddProbe("bare", String, Int32, Float32)
	require.NoError(t, err)
	all := []ArgType{Int8, Uint8, Int16, Uint16, Int32, Uint32, Int64, Uint64, String, Int8, Int8, Int8}
	dynamic, err := p.AddProbe("dynamic", all...)
	require.NoError(t, err)
	require.NoError(t, dynamic.NameArgs("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"))
	want := map[string][]string{
		"typed":   {"path", " *", "body", " *", "ok", "bool", "elapsed", "time.Duration", "user", "stapsdt.userID", "raw", "unsafe.Pointer"},
		"unnamed": {"arg0", " *", "arg1", "stapsdt.userID", "arg2", "float64", "arg3", " *"},
		"bare":    {"arg0", " *", "arg1", "int32", "arg2", "float32"},
		"dynamic": {"a", "int8", "b", "uint8", "c", "int16", "d", "uint16", "e", "int32", "f", "uint32", "g", "int64", "h", "uint64", "i", " *",
			"j", "int8", "k", "int8", "l", "int8"},
	}
	for _, name := range []string{"amd64", "arm64"} {
		arch := image.ArchByName(name)
		for i := range arch.Nops {
			im, err := p.loader.imager.image(p.spec(), arch, &arch.Nops[i])
			require.NoError(t, err)
			file := bytes.NewReader(im.Bytes)
			probes, err := sdt.Read(file)
			require.NoError(t, err)
			require.NoError(t, sdt.ReadTypes(file, probes))
			for _, probe := range probes {
				var got []string
				for _, arg := range probe.Args {
					if arg.Type.IsString() {
						got = append(got, arg.Name, " *")
						continue
					}
					got = append(got, arg.Name, arg.Type.String())
				}
				require.Equal(t, want[probe.Name], got, "%s: %s", name, probe.Name)
			}
		}
	}
}

// TestDefaultNames: arguments without names are described as arg0 and so on, with the types
// of the program, whichever site of a name has them.
func TestDefaultNames(t *testing.T) {
	unnamed, named, mixed := newProvider(t, "same"), newProvider(t, "same"), newProvider(t, "same")
	NewProbe2[string, time.Duration](unnamed, "probe")
	NewProbe2[string, time.Duration](unnamed, "probe")
	NewProbe2[string, time.Duration](named, "probe", "arg0", "arg1")
	NewProbe2[string, time.Duration](named, "probe")
	_, err := mixed.AddProbe("probe", String, Int64)
	require.NoError(t, err)
	NewProbe2[string, time.Duration](mixed, "probe")
	for i := range image.Arches() {
		want := imageOf(t, named, &image.Arches()[i])
		require.Equal(t, want, imageOf(t, unnamed, &image.Arches()[i]))
		require.Equal(t, want, imageOf(t, mixed, &image.Arches()[i]))
	}
	require.Nil(t, unnamed.Probes()[0].argNames(), "the names are the image's")
}

// TestNotDescribed: the images of the other architectures, and of providers without
// arguments, have no debug sections.
func TestNotDescribed(t *testing.T) {
	described, bare := newProvider(t, "described"), newProvider(t, "bare")
	NewProbe1[int](described, "probe")
	NewProbe0(described, "none")
	NewProbe0(bare, "none")
	for i := range image.Arches() {
		arch := &image.Arches()[i]
		has := bytes.Contains(imageOf(t, described, arch), []byte(".debug_info\x00"))
		require.Equal(t, arch.Name == "amd64" || arch.Name == "arm64", has, arch.Name)
		require.NotContains(t, string(imageOf(t, bare, arch)), ".debug_info", arch.Name)
	}
}

// imageOf returns the bytes of a provider's image.
func imageOf(t *testing.T, p *Provider, arch *image.Arch) []byte {
	t.Helper()
	im, err := p.loader.imager.image(p.spec(), arch, &arch.Nops[0])
	require.NoError(t, err)
	return im.Bytes
}

// TestGoTypes: every ArgType has a Go type of its name, but for Time, which has a struct.
func TestGoTypes(t *testing.T) {
	for i := -128; i < 128; i++ {
		if typ := ArgType(i); typ == Time {
			require.Equal(t, reflect.Struct, goType(typ).Kind())
		} else if typ.valid() {
			require.Equal(t, typ.String(), goType(typ).String())
		}
	}
}
