package sdt

import (
	"bytes"
	"compress/zlib"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"math"
	"math/bits"
	"os"
	"os/exec"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/debuginfo"
	"github.com/go-stapsdt/stapsdt/internal/elffile/sparse"
	"github.com/stretchr/testify/require"
)

// The kinds of entries that hostile DWARF is made of, by their code in its table.
const (
	codeUnit = iota + 1
	codeFunction
	codeParam
	codeTypedef
	codePointer
	codeStruct
	codeMember
	codeArray
)

// abbrevs describes these entries: what they have is a name, an address or a reference.
func abbrevs() []byte {
	const formAddr, formString, formRef4 = 0x01, 0x08, 0x13
	var b []byte
	add := func(code byte, tag dwarf.Tag, children byte, attrs ...byte) {
		b = append(b, code, byte(tag), children)
		b = append(append(b, attrs...), 0, 0)
	}
	name := []byte{byte(dwarf.AttrName), formString}
	typ := []byte{byte(dwarf.AttrType), formRef4}
	add(codeUnit, dwarf.TagCompileUnit, 1)
	add(codeFunction, dwarf.TagSubprogram, 1, append(name, byte(dwarf.AttrLowpc), formAddr)...)
	add(codeParam, dwarf.TagFormalParameter, 0, append(name, typ...)...)
	add(codeTypedef, dwarf.TagTypedef, 0, typ...)
	add(codePointer, dwarf.TagPointerType, 0, typ...)
	add(codeStruct, dwarf.TagStructType, 1)
	add(codeMember, dwarf.TagMember, 0, typ...)
	add(codeArray, dwarf.TagArrayType, 0, typ...)
	return append(b, 0)
}

// info is a unit with a function for the probe p:n, whose parameter has the type at the
// beginning of what types returns for its own offset.
func info(types func(at uint32) []byte) []byte {
	le := binary.LittleEndian
	b := make([]byte, 4, 64)
	b = le.AppendUint16(b, 4)
	b = le.AppendUint32(b, 0)
	b = append(b, 8, codeUnit, codeFunction, 'n', 0)
	b = le.AppendUint64(b, 0x1010)
	b = append(b, codeParam, 'a', 0)
	b = le.AppendUint32(b, uint32(len(b)+5))
	b = append(b, 0)
	b = append(b, types(uint32(len(b)))...)
	b = append(b, 0)
	le.PutUint32(b, uint32(len(b)-4))
	return b
}

// withDWARF is a file with the probe p:n of one argument, and DWARF.
func withDWARF(info, abbrev []byte) []byte {
	f := formats[0]
	return f.file(elf.EM_X86_64, 0, notes(f.sdtNote(0x1010, 0, 0, "p\x00n\x008@%rdi\x00")),
		part{name: ".debug_info", kind: elf.SHT_PROGBITS, data: info}, part{name: ".debug_abbrev", kind: elf.SHT_PROGBITS, data: abbrev})
}

// readTypes returns the argument of a file with DWARF. To read it allocates less than the given number of bytes.
func readTypes(t *testing.T, file []byte, memory uint64) (Arg, error) {
	t.Helper()
	probes, err := read(file)
	require.NoError(t, err)
	used := sparse.Allocated(func() { err = ReadTypes(bytes.NewReader(file), probes) })
	require.Less(t, used, memory)
	return probes[0].Args[0], err
}

// reference is an entry that has only a type.
func reference(code byte, at uint32) []byte {
	return binary.LittleEndian.AppendUint32([]byte{code}, at)
}

func TestHostileTypes(t *testing.T) {
	const million = 1 << 20
	chain := func(code byte, count int) func(uint32) []byte {
		return func(at uint32) (b []byte) {
			for i := range count {
				b = append(b, reference(code, at+5*uint32(i+1))...)
			}
			return append(b, reference(codePointer, at)...)
		}
	}
	t.Run("pointer to itself", func(t *testing.T) {
		a, err := readTypes(t, withDWARF(info(func(at uint32) []byte { return reference(codePointer, at) }), abbrevs()), 1<<20)
		require.NoError(t, err)
		require.Same(t, a.Type, a.Type.Elem)
		require.Equal(t, "? ********", a.Type.String())
	})
	for name, types := range map[string]func(uint32) []byte{
		"typedef of itself":            func(at uint32) []byte { return reference(codeTypedef, at) },
		"array of itself":              func(at uint32) []byte { return reference(codeArray, at) },
		"a cycle of typedefs":          func(at uint32) []byte { return append(reference(codeTypedef, at+5), reference(codeTypedef, at)...) },
		"a chain of typedefs":          chain(codeTypedef, 100),
		"a long chain":                 chain(codeTypedef, million/8),
		"arrays of arrays":             chain(codeArray, 1000),
		"many arrays":                  chain(codeArray, million/8),
		"a type outside":               func(at uint32) []byte { return reference(codeTypedef, 1<<30) },
		"a type in the middle of none": func(at uint32) []byte { return reference(codeTypedef, 5) },
		"a struct in itself": func(at uint32) []byte {
			return append(append([]byte{codeStruct}, reference(codeMember, at)...), 0)
		},
		"not a type": func(at uint32) []byte { return append([]byte{codeStruct, 0}, reference(codeMember, 11)...) },
	} {
		t.Run(name, func(t *testing.T) {
			a, err := readTypes(t, withDWARF(info(types), abbrevs()), 512<<20)
			require.Error(t, err)
			require.Nil(t, a.Type)
			require.Empty(t, a.Name)
		})
	}
	t.Run("a million pointers", func(t *testing.T) {
		_, err := readTypes(t, withDWARF(info(chain(codePointer, million)), abbrevs()), 512<<20)
		require.ErrorContains(t, err, debuginfo.ErrBudget.Error())
		_, err = readTypes(t, withDWARF(info(chain(codePointer, million/8)), abbrevs()), 64<<20)
		require.ErrorContains(t, err, "more than 65536 types")
	})
	t.Run("pointers that nothing refers to", func(t *testing.T) {
		a, err := readTypes(t, withDWARF(info(func(at uint32) []byte {
			return append(reference(codePointer, at), chain(codePointer, million/4)(at+5)...)
		}), abbrevs()), 1<<28)
		require.NoError(t, err)
		require.Equal(t, "a", a.Name)
	})
}

func TestHostileDWARF(t *testing.T) {
	good := info(func(at uint32) []byte { return reference(codePointer, at) })
	a, err := readTypes(t, withDWARF(good, abbrevs()), 1<<20)
	require.NoError(t, err)
	require.Equal(t, KindPointer, a.Type.Kind)

	t.Run("units without end", func(t *testing.T) {
		_, err := readTypes(t, withDWARF(bytes.Repeat(good, 1<<20/len(good)), abbrevs()), 256<<20)
		require.NoError(t, err)
		_, err = readTypes(t, withDWARF(bytes.Repeat([]byte{8, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 0}, debuginfo.MaxUnits+1), abbrevs()), 256<<20)
		require.ErrorContains(t, err, "more than 131072 units")
	})
	t.Run("overlapping tables", func(t *testing.T) {
		second := bytes.Clone(good)
		second[6] = 1
		table := append(abbrevs(), abbrevs()...)
		_, err := readTypes(t, withDWARF(append(bytes.Clone(good), second...), table), 1<<20)
		require.ErrorContains(t, err, ".debug_abbrev+0x1: tables overlap")
	})
	t.Run("attributes that occupy no bytes", func(t *testing.T) {
		const formFlagPresent = 0x19
		table := append([]byte{codeUnit, byte(dwarf.TagCompileUnit), 1}, bytes.Repeat([]byte{byte(dwarf.AttrExternal), formFlagPresent}, 1<<16)...)
		_, err := readTypes(t, withDWARF(good, append(table, 0, 0, 0)), 1<<20)
		require.ErrorContains(t, err, "an entry has more than 128 attributes")
	})
	t.Run("lengths", func(t *testing.T) {
		for _, length := range []uint32{0, 1, 7, uint32(len(good)), math.MaxInt32, 0xfffffff0, 0xffffffff} {
			b := bytes.Clone(good)
			binary.LittleEndian.PutUint32(b, length)
			_, err := readTypes(t, withDWARF(b, abbrevs()), 1<<20)
			require.ErrorContains(t, err, ".debug_info+0x", "%#x", length)
		}
	})
	t.Run("tables cut short", func(t *testing.T) {
		whole := abbrevs()
		for cut := 1; cut < len(whole)-1; cut++ {
			_, _ = readTypes(t, withDWARF(good, whole[:cut]), 1<<20)
		}
	})
}

// A compressed section is not expanded to more than real ones are.
func TestCompressionBomb(t *testing.T) {
	compressed := func(size uint64, kind elf.CompressionType, data []byte) part {
		b := binary.LittleEndian.AppendUint32(nil, uint32(kind))
		b = binary.LittleEndian.AppendUint32(b, 0)
		b = binary.LittleEndian.AppendUint64(b, size)
		b = binary.LittleEndian.AppendUint64(b, 1)
		var z bytes.Buffer
		w := zlib.NewWriter(&z)
		_, _ = w.Write(data)
		_ = w.Close()
		return part{name: ".debug_info", kind: elf.SHT_PROGBITS, flags: elf.SHF_COMPRESSED, data: append(b, z.Bytes()...)}
	}
	good := info(func(at uint32) []byte { return reference(codePointer, at) })
	file := func(p part) []byte {
		f := formats[0]
		return f.file(elf.EM_X86_64, 0, notes(f.sdtNote(0x1010, 0, 0, "p\x00n\x008@%rdi\x00")), p,
			part{name: ".debug_abbrev", kind: elf.SHT_PROGBITS, data: abbrevs()})
	}
	a, err := readTypes(t, file(compressed(uint64(len(good)), elf.COMPRESS_ZLIB, good)), 1<<20)
	require.NoError(t, err)
	require.Equal(t, "a", a.Name)
	for name, p := range map[string]part{
		"too many": compressed(32<<20, elf.COMPRESS_ZLIB, make([]byte, 32<<20)),
		"a lie":    compressed(uint64(len(good)), elf.COMPRESS_ZLIB, append(good, make([]byte, 32<<20)...)),
		"too few":  compressed(uint64(len(good))+1, elf.COMPRESS_ZLIB, good),
		"huge":     compressed(math.MaxUint64, elf.COMPRESS_ZLIB, good),
		"zstd":     compressed(uint64(len(good)), elf.COMPRESS_ZSTD, good),
	} {
		a, err := readTypes(t, file(p), 4<<20)
		if name == "a lie" { // what follows is not looked at
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, `section ".debug_info": `, name)
		require.Empty(t, a.Name)
	}
}

// Entries without attributes take a byte each, and compressed much less.
func TestEntriesWithoutEnd(t *testing.T) {
	const count = 60_000_000
	f := formats[0]
	unit := []byte{0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 1}
	binary.LittleEndian.PutUint32(unit, uint32(len(unit)-4+count+1))
	data := append(append(unit, bytes.Repeat([]byte{2}, count)...), 0)
	table := []byte{1, byte(dwarf.TagCompileUnit), 1, 0, 0, 2, byte(dwarf.TagBaseType), 0, 0, 0, 0}
	args := "p\x00n\x008@%rdi\x00"
	file := f.file(elf.EM_X86_64, 0, notes(f.sdtNote(0x1010, 0, 0, args)),
		part{name: ".debug_info", kind: elf.SHT_PROGBITS, data: data}, part{name: ".debug_abbrev", kind: elf.SHT_PROGBITS, data: table})
	_, err := readTypes(t, file, 512<<20)
	require.ErrorIs(t, err, debuginfo.ErrBudget)
}

// A reference to a string does not cost as much as a section without a NUL.
func TestLongStrings(t *testing.T) {
	const formStrp = 0x0e
	attributes := bytes.Repeat([]byte{byte(dwarf.AttrName), formStrp}, 100)
	table := append([]byte{1, byte(dwarf.TagCompileUnit), 1}, attributes...)
	table = append(table, 0, 0, 0)
	unit := append([]byte{0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 1}, make([]byte, 400)...)
	unit = append(unit, 0)
	binary.LittleEndian.PutUint32(unit, uint32(len(unit)-4))
	f := formats[0]
	for _, length := range []int{debuginfo.MaxString, debuginfo.MaxString + 1, 32 << 20} {
		file := f.file(elf.EM_X86_64, 0, notes(f.sdtNote(0x1010, 0, 0, "p\x00n\x008@%rdi\x00")),
			part{name: ".debug_info", kind: elf.SHT_PROGBITS, data: unit}, part{name: ".debug_abbrev", kind: elf.SHT_PROGBITS, data: table},
			part{name: ".debug_str", kind: elf.SHT_PROGBITS, data: append(bytes.Repeat([]byte{'s'}, length), 0)})
		_, err := readTypes(t, file, uint64(32<<20+4*length))
		if length <= debuginfo.MaxString {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, ".debug_str+0x0: a string is longer than 65536 bytes")
		}
	}
	long := string(bytes.Repeat([]byte{'n'}, maxName+1))
	require.Equal(t, []string{long[1:], "", ""}, []string{short(long[1:]), short(long), short(nil)})
}

func FuzzRead(f *testing.F) {
	for _, format := range formats {
		args := map[elf.Machine]string{elf.EM_386: "-4@%eax 8@4(%esp)", elf.EM_X86_64: "-4@%eax 8@4(%rsp)", elf.EM_S390: "-4@%r2 8@164(%r15)"}[format.machine()]
		note := format.sdtNote(0x1010, 0x1080, 0x2000, "app\x00probe\x00"+args+"\x00")
		f.Add(format.file(format.machine(), 0x1080, notes(note, note)))
	}
	f.Add(withDWARF(info(func(at uint32) []byte { return reference(codePointer, at) }), abbrevs()))
	for _, flags := range [][]string{{"-g", "-O2"}, {"-g", "-gz=zlib", "-O2"}} {
		if _, err := exec.LookPath("gcc"); err == nil && bits.UintSize == 64 {
			file, err := os.ReadFile(compile(f, "gcc", append(flags, "-nostdlib")...))
			require.NoError(f, err)
			f.Add(file)
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		var probes []Site
		used := sparse.Allocated(func() {
			probes, _ = read(file)
			_ = ReadTypes(bytes.NewReader(file), probes)
		})
		require.Less(t, used, uint64(32<<20)+4096*uint64(len(file))) // debug/elf takes 10 MB for headers that are not there
		for _, p := range probes {
			require.NotEmpty(t, p.Provider)
			require.NotEmpty(t, p.Name)
			for _, a := range p.Args {
				checkArg(t, a)
				_ = a.Type.String()
				checkType(t, a.Type, map[*Type]bool{})
			}
		}
	})
}

// checkType checks that a type can be walked.
func checkType(t *testing.T, typ *Type, seen map[*Type]bool) {
	if typ == nil || seen[typ] {
		return
	}
	seen[typ] = true
	require.Equal(t, typ.Kind == KindPointer || typ.Kind == KindArray, typ.Elem != nil)
	checkType(t, typ.Elem, seen)
	for _, f := range typ.Fields {
		require.NotNil(t, f.Type)
		checkType(t, f.Type, seen)
	}
}
