package sdt

import (
	"bytes"
	"debug/elf"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

// compile makes a shared object of testdata/described.c.
func compile(t testing.TB, compiler string, flags ...string) string {
	t.Helper()
	if bits.UintSize != 64 {
		t.Skipf("the notes of the C file are those of 64 bits, and %s has %d", runtime.GOARCH, bits.UintSize)
	}
	gcc := testenv.NeedsTool(t, compiler, compiler)
	object := filepath.Join(t.TempDir(), "described.so")
	args := append(flags, "-shared", "-fPIC", "-o", object, "testdata/described.c")
	out, err := exec.Command(gcc, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return object
}

// describe reads the probes of a file and their types from another.
func describe(t testing.TB, path, debug string) (map[string]Site, error) {
	t.Helper()
	probes, err := ReadFile(path)
	require.NoError(t, err)
	f, err := os.Open(debug)
	require.NoError(t, err)
	defer f.Close()
	err = ReadTypes(f, probes)
	named := map[string]Site{}
	for _, p := range probes {
		named[p.Name] = p
	}
	return named, err
}

func TestReadTypes(t *testing.T) {
	for _, compiler := range []string{"gcc", "clang"} {
		for _, flags := range []string{"-g -O0", "-g -O2", "-gdwarf-4 -O2", "-gdwarf-5 -O1 -gz=zlib", "-gdwarf-2 -gstrict-dwarf -O2", "-gdwarf-3 -O1"} {
			t.Run(compiler+" "+flags, func(t *testing.T) {
				path := compile(t, compiler, strings.Fields(flags)...)
				probes, err := describe(t, path, path)
				require.ErrorContains(t, err, `app:size: argument 0 is 4@%edi of 4 bytes in the note, but "a" of type long`)
				require.Len(t, strings.Split(err.Error(), "\n"), 1)
				checkDescribed(t, probes)
			})
		}
	}
}

func checkDescribed(t *testing.T, probes map[string]Site) {
	for name, want := range map[string]string{
		"request__done": "path char *, status int, elapsed duration, req request *",
		"kinds":         "b _Bool, u unsigned char, s short, f float, e state, o opaque *",
		"strings":       "t text, list char **, v void *, bytes uint8_t *, small signed char *",
		"eight":         "a long, b long, c long, d long, e long, f long, g long, h long",
		"other":         " ?", "count": " ?", "size": " ?", "none": "",
	} {
		var args []string
		for _, a := range probes[name].Args {
			// clang says "long" and "short", gcc "long int" and "short int".
			typ := strings.TrimSuffix(strings.TrimSuffix(a.Type.String(), " int"), "?")
			if a.Type == nil {
				typ = "?"
			}
			args = append(args, a.Name+" "+typ)
		}
		require.Equal(t, want, strings.Join(args, ", "), name)
	}
	kinds := func(name string) (kinds []TypeKind) {
		for _, a := range probes[name].Args {
			kinds = append(kinds, a.Type.Kind)
			require.EqualValues(t, a.Size, a.Type.Size)
		}
		return kinds
	}
	require.Equal(t, []TypeKind{KindBool, KindUint, KindInt, KindFloat}, kinds("kinds")[:4])
	require.Contains(t, []TypeKind{KindInt, KindUint}, kinds("kinds")[4], "an enum's sign is the compiler's choice")
	require.Equal(t, []TypeKind{KindPointer, KindInt, KindInt, KindPointer}, kinds("request__done"))
	isString := func(i int) bool { return probes["strings"].Args[i].Type.IsString() }
	require.True(t, isString(0))
	require.True(t, probes["request__done"].Args[0].Type.IsString())
	for i := range 4 {
		require.False(t, isString(1+i))
	}
	require.Empty(t, probes["kinds"].Args[5].Type.Elem.Fields)
	checkRequest(t, probes["request__done"].Args[3].Type.Elem)
}

// checkRequest checks the struct request.
func checkRequest(t *testing.T, request *Type) {
	require.Equal(t, KindStruct, request.Kind)
	fields := map[string]Field{}
	for _, f := range request.Fields {
		fields[f.Name] = f
	}
	require.EqualValues(t, 0, fields["path"].Offset)
	require.Equal(t, "str", fields["path"].Type.Fields[0].Name)
	require.True(t, fields["path"].Type.Fields[0].Type.IsString())
	require.EqualValues(t, 8, fields["path"].Type.Fields[1].Offset)
	require.EqualValues(t, 16, fields["status"].Offset)
	require.EqualValues(t, 24, fields["next"].Offset)
	// The struct refers to itself, through a typedef and without.
	require.Equal(t, "request", fields["next"].Type.Elem.Name)
	require.Equal(t, request.Fields, fields["next"].Type.Elem.Fields)
	require.Equal(t, request.Fields, fields["parent"].Type.Elem.Fields)
	times := fields["times"].Type
	require.Equal(t, KindArray, times.Kind)
	require.EqualValues(t, 3, times.Count)
	require.EqualValues(t, 2, times.Elem.Count)
	require.Equal(t, KindFloat, times.Elem.Elem.Kind)
	require.EqualValues(t, 16, times.Elem.Size)
	require.EqualValues(t, 48, times.Size)
	require.Len(t, fields["value"].Type.Fields, 2)
	require.EqualValues(t, 0, fields["value"].Type.Fields[1].Offset)
	require.Equal(t, KindPointer, fields["done"].Type.Kind)
	require.Equal(t, KindOther, fields["done"].Type.Elem.Kind)
	if retries, ok := fields["retries"]; ok { // not in DWARF 2 and 3, in a notation that we do not read
		require.EqualValues(t, 3, retries.BitSize)
		require.EqualValues(t, 20*8+1, retries.BitOffset)
	}
}

// The debugging information may be in another file.
func TestReadTypesOfAnotherFile(t *testing.T) {
	objcopy := testenv.NeedsTool(t, "objcopy", "binutils")
	path := compile(t, "gcc", "-g", "-O2")
	debug, stripped := path+".debug", path+".stripped"
	for _, args := range [][]string{{"--only-keep-debug", path, debug}, {"--strip-debug", path, stripped}} {
		out, err := exec.Command(objcopy, args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	probes, err := describe(t, stripped, stripped)
	require.NoError(t, err)
	require.Empty(t, probes["request__done"].Args[0].Name)
	probes, err = describe(t, stripped, debug)
	require.ErrorContains(t, err, "app:size")
	checkDescribed(t, probes)
}

// section returns where a section of a file is.
func sectionOf(t testing.TB, file []byte, name string) []byte {
	f, err := elf.NewFile(bytes.NewReader(file))
	require.NoError(t, err)
	s := f.Section(name)
	require.NotNil(t, s, name)
	return file[s.Offset : s.Offset+s.FileSize]
}

// No byte of the DWARF makes reading fail otherwise than by an error.
func TestDamagedTypes(t *testing.T) {
	testenv.Long(t, "reads the types once for every third byte of DWARF")
	path := compile(t, "gcc", "-g", "-O2")
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	probes, err := read(file)
	require.NoError(t, err)
	for _, name := range []string{".debug_info", ".debug_abbrev", ".debug_str"} {
		data := sectionOf(t, file, name)
		for at := 0; at < len(data); at += 3 {
			for _, b := range []byte{0, 1, 0x7f, 0xff, data[at] + 1} {
				old := data[at]
				data[at] = b
				_ = ReadTypes(bytes.NewReader(file), probes)
				data[at] = old
			}
		}
	}
}
