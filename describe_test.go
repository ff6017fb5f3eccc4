//go:build linux && !stapsdt_noload

package stapsdt

import (
	"bytes"
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
	NewProbe2[int, int](p, "unnamed")
	all := []ArgType{Int8, Uint8, Int16, Uint16, Int32, Uint32, Int64, Uint64, String, Int8, Int8, Int8}
	dynamic, err := p.AddProbe("dynamic", all...)
	require.NoError(t, err)
	require.NoError(t, dynamic.NameArgs("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"))
	want := map[string][]string{
		"typed":   {"path", " *", "body", " *", "ok", "bool", "elapsed", "time.Duration", "user", "stapsdt.userID", "raw", "unsafe.Pointer"},
		"unnamed": {"", "?", "", "?"},
		"dynamic": {"a", "int8", "b", "uint8", "c", "int16", "d", "uint16", "e", "int32", "f", "uint32", "g", "int64", "h", "uint64", "i", " *",
			"j", "int8", "k", "int8", "l", "int8"},
	}
	for _, name := range []string{"amd64", "arm64"} {
		arch := image.ArchByName(name)
		for i := range arch.Nops {
			im, err := p.loader.imager.image(p, arch, &arch.Nops[i])
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

// TestNotDescribed: the images of the other architectures, and of providers without names,
// have no debug sections.
func TestNotDescribed(t *testing.T) {
	named, unnamed := newProvider(t, "same"), newProvider(t, "same")
	NewProbe1[int](named, "probe", "a")
	NewProbe1[int](unnamed, "probe")
	for i := range image.Arches() {
		arch := &image.Arches()[i]
		a, err := named.loader.imager.image(named, arch, &arch.Nops[0])
		require.NoError(t, err)
		b, err := unnamed.loader.imager.image(unnamed, arch, &arch.Nops[0])
		require.NoError(t, err)
		require.Equal(t, arch.Name != "amd64" && arch.Name != "arm64", bytes.Equal(a.Bytes, b.Bytes), arch.Name)
	}
}

// TestGoTypes: every ArgType has a Go type.
func TestGoTypes(t *testing.T) {
	for i := -128; i < 128; i++ {
		if typ := ArgType(i); typ.valid() && typ != String {
			require.EqualValues(t, typ.Size(), goType(typ).Size())
		}
	}
}
