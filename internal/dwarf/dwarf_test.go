package dwarf

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"
	"unsafe"

	foreign "github.com/go-stapsdt/stapsdt/internal/dwarf/internal/time"
	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

type (
	userID  int64
	path    string
	ratio   float64
	flags   [3]uint16
	list    []*node
	handler interface{ Handle() }
	table   map[string]int

	embedded struct {
		A uint8
		_ [3]byte
		B bool
	}

	node struct {
		embedded
		Next   *node
		List   list
		Path   path
		Plain  string
		Ratio  ratio
		Phase  complex128
		Flags  flags
		None   [0]int64
		Grid   [2][3]int8
		Any    any
		Do     handler
		Err    error
		Table  table
		Chan   chan int
		Func   func(int) string
		Raw    unsafe.Pointer
		Word   uintptr
		Elapse time.Duration
		Inner  struct{ X, Y float32 }
		Empty  struct{}
		Deep   ***node
		_      int64
	}
)

func param[T any](name string) image.Param {
	return image.Param{Name: name, Type: reflect.TypeFor[T]()}
}

// all has every kind of type, more arguments than registers, a probe without names, one
// without arguments, and a probe twice.
var all = []image.Probe{
	{Name: "ints", Params: []image.Param{
		param[int8]("a"), param[uint8]("b"), param[int16]("c"), param[uint16]("d"), param[int32]("e"), param[uint32]("f"),
		param[int64]("g"), param[uint64]("h"), param[int]("i"), param[uint]("j"), param[uintptr]("k"), param[userID]("l"),
	}},
	{Name: "unnamed"},
	{Name: "request__done", Params: []image.Param{
		param[path]("path"), param[[]byte]("body"), param[time.Duration]("elapsed"), param[bool]("ok"), param[float32]("f"), param[ratio]("ratio"),
		param[*node]("node"), param[unsafe.Pointer]("raw"),
	}},
	{Name: "again", Params: []image.Param{param[string]("path")}},
	{Name: "again", Params: []image.Param{param[string]("path")}},
}

// build returns an image with a description of probes.
func build(t testing.TB, arch string, probes []image.Probe) []byte {
	t.Helper()
	a := image.ArchByName(arch)
	nop := &a.Nops[0]
	described := slices.Clone(probes)
	for i := range described {
		for _, p := range described[i].Params {
			described[i].Args = append(described[i].Args, note(p.Type))
		}
	}
	spec := image.Spec{Provider: "provider", Probes: described}
	im, err := image.Build(a, nop, spec, Describe(a, nop, spec))
	require.NoError(t, err)
	return im.Bytes
}

// note returns an argument's type in a note.
func note(t reflect.Type) int8 {
	switch t.Kind() {
	case reflect.String, reflect.Slice:
		return 8
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return -int8(t.Size())
	case reflect.Struct: // a time.Time
		return -8
	}
	return int8(t.Size())
}

func forEachArch(t *testing.T, test func(t *testing.T, arch string)) {
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) { test(t, arch) })
	}
}

func TestReadTypes(t *testing.T) {
	forEachArch(t, func(t *testing.T, arch string) {
		file := bytes.NewReader(build(t, arch, all))
		probes, err := sdt.Read(file)
		require.NoError(t, err)
		require.NoError(t, sdt.ReadTypes(file, probes))
		require.Len(t, probes, len(all))
		for i, p := range probes {
			require.Equal(t, all[i].Name, p.Name)
			require.Len(t, p.Args, len(all[i].Params))
			for j, arg := range p.Args {
				want := all[i].Params[j]
				require.Equal(t, want.Name, arg.Name)
				if k := want.Type.Kind(); k == reflect.String || k == reflect.Slice {
					require.True(t, arg.Type.IsString(), "%v", arg.Type)
					continue
				}
				requireType(t, want.Type, arg.Type, map[reflect.Type]bool{})
			}
		}
	})
}

// kinds are the kinds in DWARF of Go's kinds.
var kinds = map[reflect.Kind]sdt.TypeKind{
	reflect.Bool: sdt.KindBool, reflect.Float32: sdt.KindFloat, reflect.Float64: sdt.KindFloat, reflect.Complex128: sdt.KindOther,
	reflect.Int: sdt.KindInt, reflect.Int8: sdt.KindInt, reflect.Int16: sdt.KindInt, reflect.Int32: sdt.KindInt, reflect.Int64: sdt.KindInt,
	reflect.Uint: sdt.KindUint, reflect.Uint8: sdt.KindUint, reflect.Uint16: sdt.KindUint, reflect.Uint32: sdt.KindUint, reflect.Uint64: sdt.KindUint,
	reflect.Uintptr: sdt.KindUint, reflect.Pointer: sdt.KindPointer, reflect.UnsafePointer: sdt.KindPointer, reflect.Map: sdt.KindPointer,
	reflect.Chan: sdt.KindPointer, reflect.Func: sdt.KindPointer, reflect.String: sdt.KindStruct, reflect.Slice: sdt.KindStruct,
	reflect.Interface: sdt.KindStruct, reflect.Struct: sdt.KindStruct, reflect.Array: sdt.KindArray,
}

// requireType requires that DWARF describes a type as Go lays it out.
func requireType(t *testing.T, want reflect.Type, got *sdt.Type, seen map[reflect.Type]bool) {
	t.Helper()
	if seen[want] {
		return
	}
	seen[want] = true
	require.EqualValues(t, want.Size(), got.Size, "%v", want)
	if want.Name() != "" {
		require.Equal(t, want.String(), got.Name)
	}
	words := func(names ...string) {
		t.Helper()
		require.Len(t, got.Fields, len(names))
		for i, name := range names {
			require.Equal(t, name, got.Fields[i].Name)
			require.EqualValues(t, 8*i, got.Fields[i].Offset)
			require.EqualValues(t, 8, got.Fields[i].Type.Size)
		}
	}
	require.Equal(t, kinds[want.Kind()], got.Kind, "%v", want)
	switch want.Kind() {
	case reflect.Pointer:
		requireType(t, want.Elem(), got.Elem, seen)
	case reflect.UnsafePointer, reflect.Map, reflect.Chan, reflect.Func:
		require.Equal(t, want.String(), got.Name)
		require.Equal(t, "void", got.Elem.Name)
	case reflect.String:
		words("str", "len")
		requireType(t, reflect.TypeFor[byte](), got.Fields[0].Type.Elem, seen)
	case reflect.Slice:
		words("array", "len", "cap")
		require.Equal(t, want.String(), got.Name)
		requireType(t, want.Elem(), got.Fields[0].Type.Elem, seen)
	case reflect.Interface:
		if want.NumMethod() == 0 {
			words("_type", "data")
		} else {
			words("tab", "data")
		}
	case reflect.Array:
		require.EqualValues(t, want.Len(), got.Count)
		requireType(t, want.Elem(), got.Elem, seen)
	case reflect.Struct:
		requireStruct(t, want, got, seen)
	}
}

// requireStruct is requireType for a struct.
func requireStruct(t *testing.T, want reflect.Type, got *sdt.Type, seen map[reflect.Type]bool) {
	t.Helper()
	require.Equal(t, want.String(), got.Name)
	i := 0
	for _, f := range reflect.VisibleFields(want) {
		if len(f.Index) > 1 || f.Name == "_" {
			continue
		}
		require.Equal(t, f.Name, got.Fields[i].Name)
		require.EqualValues(t, f.Offset, got.Fields[i].Offset)
		requireType(t, f.Type, got.Fields[i].Type, seen)
		i++
	}
	require.Len(t, got.Fields, i)
}

// locations are where a C function finds its arguments: the operators of DWARF.
var locations = map[string][]string{
	"amd64": {"55", "54", "51", "52", "58", "59", "7708", "7710", "7718", "7720", "7728", "7730"},
	"arm64": {"50", "51", "52", "53", "54", "55", "56", "57", "8f00", "8f08", "8f10", "8f18"},
}

func TestDWARF(t *testing.T) {
	forEachArch(t, func(t *testing.T, arch string) {
		f, err := elf.NewFile(bytes.NewReader(build(t, arch, all)))
		require.NoError(t, err)
		symbols, err := f.DynamicSymbols()
		require.NoError(t, err)
		data, err := f.DWARF()
		require.NoError(t, err)
		r := data.Reader()
		unit, err := r.Next()
		require.NoError(t, err)
		require.Equal(t, "provider", unit.Val(dwarf.AttrName))
		require.EqualValues(t, 0x0c, unit.Val(dwarf.AttrLanguage))
		ranges, err := data.Ranges(unit)
		require.NoError(t, err)
		text := f.Section(".text")
		require.Equal(t, [][2]uint64{{text.Addr, text.Addr + text.Size}}, ranges)
		lines, err := data.LineReader(unit)
		require.NoError(t, err)
		require.ErrorContains(t, lines.Next(new(dwarf.LineEntry)), "EOF")
		require.Equal(t, "/provider", lines.Files()[1].Name)

		site, arg := -1, 0
		for {
			e, err := r.Next()
			require.NoError(t, err)
			if e == nil {
				break
			}
			switch e.Tag {
			case dwarf.TagSubprogram:
				site, arg = site+1, 0
				require.Equal(t, all[site].Name, e.Val(dwarf.AttrName))
				require.Equal(t, symbols[site].Value, e.Val(dwarf.AttrLowpc))
				require.EqualValues(t, symbols[site].Size, e.Val(dwarf.AttrHighpc))
				require.EqualValues(t, site+1, e.Val(dwarf.AttrDeclLine))
				require.EqualValues(t, 1, e.Val(dwarf.AttrDeclFile))
				require.Equal(t, true, e.Val(dwarf.AttrExternal))
			case dwarf.TagFormalParameter, dwarf.TagVariable:
				require.Equal(t, arg < 6, e.Tag == dwarf.TagFormalParameter)
				require.Equal(t, locations[arch][arg], fmt.Sprintf("%x", e.Val(dwarf.AttrLocation)))
				arg++
			}
		}
		require.Equal(t, len(all)-1, site)
	})
}

// TestFloats: a float is a number to the tracers of an argument, and a float in a struct.
func TestFloats(t *testing.T) {
	sites := []image.Probe{{Name: "p", Params: []image.Param{param[float32]("f"), param[ratio]("ratio"), param[*node]("node")}}}
	f, err := elf.NewFile(bytes.NewReader(build(t, "amd64", sites)))
	require.NoError(t, err)
	data, err := f.DWARF()
	require.NoError(t, err)
	var types []dwarf.Type
	for r := data.Reader(); ; {
		e, err := r.Next()
		require.NoError(t, err)
		if e == nil {
			break
		}
		if e.Tag == dwarf.TagFormalParameter {
			typ, err := data.Type(e.Val(dwarf.AttrType).(dwarf.Offset))
			require.NoError(t, err)
			types = append(types, typ)
		}
	}
	require.Len(t, types, 3)
	require.IsType(t, (*dwarf.UintType)(nil), types[0])
	require.IsType(t, (*dwarf.UintType)(nil), types[1].(*dwarf.TypedefType).Type)
	inNode := map[string]dwarf.Type{}
	for _, field := range types[2].(*dwarf.PtrType).Type.(*dwarf.StructType).Field {
		inNode[field.Name] = field.Type
	}
	require.IsType(t, (*dwarf.FloatType)(nil), inNode["Ratio"].(*dwarf.TypedefType).Type)
}

// TestReadByOthers: no reader of DWARF has a complaint.
func TestReadByOthers(t *testing.T) {
	forEachArch(t, func(t *testing.T, arch string) {
		file := filepath.Join(t.TempDir(), "image.so")
		require.NoError(t, os.WriteFile(file, build(t, arch, all), 0o644))
		for _, reader := range []struct {
			pkg  string
			args []string
		}{
			{"binutils", []string{"readelf", "--debug-dump"}},
			{"elfutils", []string{"eu-readelf", "-w"}},
			{"llvm", []string{"llvm-dwarfdump", "--verify"}},
		} {
			t.Run(reader.args[0], func(t *testing.T) {
				tool := testenv.NeedsTool(t, reader.args[0], reader.pkg)
				cmd := exec.Command(tool, append(reader.args[1:], file)...)
				var complaints bytes.Buffer
				cmd.Stderr = &complaints
				out, err := cmd.Output()
				require.NoError(t, err, "%s%s", out, &complaints)
				require.Empty(t, complaints.String())
				require.NotRegexp(t, `(?i)error:|warning:|invalid|corrupt|\?\?\?`, string(out))
			})
		}
	})
}

// TestNames: two types that tracers could confuse have two names.
func TestNames(t *testing.T) {
	first, second := local1(), local2()
	require.Equal(t, first.String(), second.String())
	file := bytes.NewReader(build(t, "amd64", []image.Probe{{Name: "p", Params: []image.Param{{Name: "a", Type: first}, {Name: "b", Type: second}}}}))
	probes, err := sdt.Read(file)
	require.NoError(t, err)
	require.NoError(t, sdt.ReadTypes(file, probes))
	require.Equal(t, "dwarf.local", probes[0].Args[0].Type.Name)
	require.NotEqual(t, "dwarf.local", probes[0].Args[1].Type.Name)
}

func local1() reflect.Type { type local int32; return reflect.TypeFor[local]() }
func local2() reflect.Type { type local int32; return reflect.TypeFor[local]() }

// TestForeignNames: only times and durations of the standard library have their names, by which tracers
// know what the numbers mean.
func TestForeignNames(t *testing.T) {
	type holder struct{ At time.Time }
	foreign := []reflect.Type{reflect.TypeFor[foreign.Time](), reflect.TypeFor[foreign.Duration]()}
	ours := []reflect.Type{reflect.TypeFor[time.Time](), reflect.TypeFor[time.Duration]()}
	for _, row := range kind.Rows {
		is := func(typ reflect.Type) bool { return typ.String() == row.Sent }
		if row.Unit != kind.None && row.Size != 0 {
			require.True(t, slices.ContainsFunc(foreign, is) && slices.ContainsFunc(ours, is), row.Sent)
		}
	}
	for _, all := range [][]reflect.Type{slices.Concat(foreign, ours), slices.Concat(ours, foreign)} {
		var params []image.Param
		for i, typ := range append(all, reflect.TypeFor[*holder]()) {
			params = append(params, image.Param{Name: string(rune('a' + i)), Type: typ})
		}
		file := bytes.NewReader(build(t, "amd64", []image.Probe{{Name: "p", Params: params}}))
		probes, err := sdt.Read(file)
		require.NoError(t, err)
		require.NoError(t, sdt.ReadTypes(file, probes))
		for i, typ := range all {
			described := probes[0].Args[i].Type
			require.Equal(t, sdt.KindInt, described.Kind)
			require.Equal(t, slices.Contains(ours, typ), described.Name == typ.String(), described.Name)
		}
		at := probes[0].Args[len(all)].Type.Elem.Fields[0].Type
		require.Equal(t, sdt.KindStruct, at.Kind)
		require.NotEqual(t, "time.Time", at.Name, "the name of the number")
	}
}
